/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is there room for a copy, so that neither it nor the program meets a limit? */
#ifndef TLBCOST_COPIES_HEADROOM_H
#define TLBCOST_COPIES_HEADROOM_H

#include <stdint.h>
#include <sys/types.h>

/*
 * For a process with this much resident memory.  Returns NULL; or why not, as a word for the table:
 * "refused-memory" or "refused-processes".
 */
const char *headroom_lacks(pid_t pid, uint64_t resident_bytes);

#endif
