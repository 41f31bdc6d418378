/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is a stopped thread within a restartable sequence (rseq(2))? */
#ifndef TLBCOST_COPIES_RESTARTABLE_H
#define TLBCOST_COPIES_RESTARTABLE_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/user.h>

/*
 * If it is, let its registers go to where the kernel would: the sequence has been aborted, and may
 * not be gone on with after system calls of others.  Kernels before 5.13 do not tell.
 */
bool restartable_abort(pid_t thread, struct user_regs_struct *registers);

#endif
