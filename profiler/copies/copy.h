/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A copy of one thread of a running program: a separate process that shares the program's memory
 * copy-on-write, gets no signals, and is killed after use.
 *
 * The injector (injector.h) makes it, parks it in a call that never returns and lets it go.  The
 * process that calls copy_take() traces it from then on; all functions below are for that one.
 */
#ifndef TLBCOST_COPIES_COPY_H
#define TLBCOST_COPIES_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct copy {
	pid_t pid;		/* of the copy, as seen from here */
	pid_t inner_pid;	/* as the program sees it, which may have to reap it */
	pid_t program, thread;	/* of which it is a copy */
	uint64_t taken_ns;	/* CLOCK_MONOTONIC when it was made */
	/* Where it begins: an interrupted system call will be made again. */
	struct user_regs_struct start;
	uint64_t call_instruction;	/* address of a `syscall` instruction in the program */
	/* Of the thread; the copy itself has all signals blocked. */
	uint64_t signal_mask;
};

/*
 * Trace a parked copy.  Afterwards it is in a ptrace stop, dies with this process, and has the
 * caller's CPUs and scheduling class (SCHED_IDLE).  Returns 0, or -1 with errno (ESRCH: it is
 * gone).
 */
int copy_take(struct copy *copy);

/* Kill it and wait for that.  Safe if it is gone.  The program may still have to reap it. */
void copy_kill(struct copy *copy);

/* All of it.  Returns 0, or -1 with errno. */
int copy_read(const struct copy *copy, uint64_t address, void *buffer, size_t bytes);
int copy_write(const struct copy *copy, uint64_t address, const void *buffer, size_t bytes);

/*
 * Have the stopped copy make one system call for real; its registers are `registers` before and
 * after.  Returns the kernel's result (-errno for an error), or COPY_LOST.
 */
#define COPY_LOST INT64_MIN
int64_t copy_call(struct copy *copy, const struct user_regs_struct *registers, long call,
		  const uint64_t arguments[6]);

#endif
