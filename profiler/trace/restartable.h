/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is a stopped thread within a restartable sequence (rseq(2))? */
#ifndef TLBCOST_TRACE_RESTARTABLE_H
#define TLBCOST_TRACE_RESTARTABLE_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/user.h>

/*
 * If it is, change its registers as the kernel would to abort the sequence, which must not continue
 * after our system calls.  Not visible before Linux 5.13.
 */
bool restartable_abort(pid_t thread, struct user_regs_struct *registers);

#endif
