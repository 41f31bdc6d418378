/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The system call of a stopped thread, in its registers (x86-64). */
#ifndef TLBCOST_THP_REGISTERS_H
#define TLBCOST_THP_REGISTERS_H

#include <stdint.h>
#include <sys/types.h>

/* Registers of one thread.  Fields are private. */
struct registers {
	uint64_t raw[27];	/* as the kernel keeps them: user_regs_struct of x86-64 */
};

/* Of a thread in a ptrace stop.  Return 0, or -1 with errno: ENOTSUP for a 32-bit one. */
int registers_read(pid_t tid, struct registers *registers);
int registers_write(pid_t tid, const struct registers *registers);

/* The system call at whose entry or exit the thread is, and its first six arguments. */
long registers_call(const struct registers *registers);
uint64_t registers_argument(const struct registers *registers, unsigned i);
void registers_set_argument(struct registers *registers, unsigned i, uint64_t value);

/* At the exit: its result, -4095 to -1 for an error. */
int64_t registers_result(const struct registers *registers);
void registers_set_result(struct registers *registers, int64_t result);

/* At the entry: do not make the call, and return `result` from it. */
void registers_skip(struct registers *registers, int64_t result);

/* At the exit, with the registers of the entry: make the same call again. */
void registers_repeat(struct registers *registers);

/* Let the thread make this call next, by the instruction of the call that it has just made. */
void registers_make_call(struct registers *registers, long call, const uint64_t arguments[6]);

#endif
