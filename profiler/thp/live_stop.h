/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How does a thread of a process that runs stop for a call or two? */
#ifndef TLBCOST_THP_LIVE_STOP_H
#define TLBCOST_THP_LIVE_STOP_H

#include <stdint.h>
#include <sys/types.h>

#include "injection.h"

/* Where the process has a system call instruction.  Returns 0, or -1 with errno: ENOTSUP. */
int live_find_instruction(pid_t pid, uint64_t *instruction);

/*
 * Stop it: *injection is begun.  Returns 0; or -1 with errno, and it is not traced: EPERM, ESRCH,
 * ETIMEDOUT.
 */
int live_stop(pid_t pid, uint64_t instruction, struct injection *injection);

/* It continues as it was, untraced.  Returns like injection_end(). */
int live_let_go(struct injection *injection);

/* Sleep. */
void live_nap(uint64_t ns);

#endif
