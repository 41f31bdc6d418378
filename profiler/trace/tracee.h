/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What does a traced thread do next, and how does it make a system call for us? */
#ifndef TLBCOST_TRACE_TRACEE_H
#define TLBCOST_TRACE_TRACEE_H

#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/user.h>

/* Stops that have no name of their own in wait()'s status. */
#define TRACEE_AT_CALL (SIGTRAP | 0x80)
#define TRACEE_EVENT(status) ((status) >> 16)

/*
 * Deadlines: a time of CLOCK_MONOTONIC, or one of these.  Except for the second, SIGCHLD must be
 * blocked, and is consumed.
 */
#define TRACEE_FOR_EVER UINT64_MAX
#define TRACEE_OF_ONE_THREAD 0u	/* for ever, for a process that has one thread: a copy */

/* Set what is called while waiting with a deadline, when another tracee may have stopped. */
void tracee_look_at_others(void (*others)(void));

/*
 * Wait until it stops or ends.  Returns 0 with *status; or -1 with errno: ETIMEDOUT, ECHILD if it
 * is gone.
 */
int tracee_wait(pid_t tid, uint64_t deadline_ns, int *status);

/*
 * For a seized thread that was asked to stop (PTRACE_INTERRUPT): wait until it does, and pass on
 * the signals that come first.  Returns the signal of the stop: SIGTRAP, or that of a group stop;
 * or -1 with errno, ESRCH if it has ended.
 */
int tracee_wait_interrupted(pid_t tid, uint64_t deadline_ns);

/*
 * Have a stopped thread (PTRACE_O_TRACESYSGOOD, signals blocked) make one system call, by the
 * instruction at `instruction`; the other registers are `registers`.  It is at the exit of the call
 * afterwards.  Returns the kernel's result; or TRACEE_LOST.  *child (may be NULL): the new process, if
 * that is traced.  `deadline_ns`: TRACEE_*.
 */
#define TRACEE_LOST INT64_MIN
int64_t tracee_call(pid_t tid, const struct user_regs_struct *registers, uint64_t instruction,
		    long call, const uint64_t arguments[6], uint64_t deadline_ns, pid_t *child);

#endif
