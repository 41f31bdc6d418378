/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where does a program have an instruction that makes a system call? */
#ifndef TLBCOST_COPIES_SYSCALL_INSTRUCTION_H
#define TLBCOST_COPIES_SYSCALL_INSTRUCTION_H

#include <stdint.h>
#include <sys/types.h>

/*
 * In the vDSO if it has one, else in any code that can be read.  Where it was is remembered, and
 * looked at again.  Returns 0; or -1 with errno: ENOENT if there is none.
 */
int syscall_instruction_find(pid_t process, pid_t thread, uint64_t *address);

#endif
