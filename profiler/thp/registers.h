/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which system call does a stopped thread make, with what, and how is it changed? */
#ifndef TLBCOST_THP_REGISTERS_H
#define TLBCOST_THP_REGISTERS_H

#include <stdint.h>
#include <sys/types.h>

/* Registers of one thread.  Fields are private. */
struct registers {
	uint64_t raw[27];	/* as the kernel keeps them: user_regs_struct of x86-64 */
};

/* Whether programs of this processor can be traced. */
int registers_supported(void);

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

/*
 * Let the thread make this call next, by the system call instruction at
 * `instruction`; 0: the one that it has just executed.
 */
void registers_make_call(struct registers *registers, uint64_t instruction, long call,
			 const uint64_t arguments[3]);

/*
 * The thread was stopped in a call that the kernel would restart (ERESTART*).
 * It does so only where it stopped the thread: let the thread do it anywhere.
 */
void registers_restart(struct registers *registers);

/*
 * The first system call instruction in memory[0..length), as an offset; -1:
 * there is none.
 */
ssize_t registers_find_instruction(const unsigned char *memory, size_t length);

#endif
