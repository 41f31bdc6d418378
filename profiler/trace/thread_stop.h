/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How is a thread of a running program stopped, made to make our calls, and released as if nothing
 * had happened?
 *
 * No ptrace option that could harm it is ever set, and it gets no signal from us.
 */
#ifndef TLBCOST_TRACE_THREAD_STOP_H
#define TLBCOST_TRACE_THREAD_STOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "refusal.h"
#include "trampoline.h"

/* A stopped thread.  For reading. */
struct thread_stop {
	pid_t program, thread;
	struct trampoline trampoline;		/* where it makes our calls */
	struct user_regs_struct own;	/* with which it continues */
	struct user_regs_struct start;	/* with which its copy begins: outside system calls */
	uint64_t mask;			/* its signals' */
	uint64_t since_ns;		/* CLOCK_MONOTONIC */
	bool restarted, rewound, rseq_aborted;	/* see injector.h */
	bool called;			/* has made our calls */
};

/*
 * Stop it, if it is where it can make calls.  Returns INJECTED; or why not, with errno in *error,
 * and it is unchanged.  One that does not stop in time is released when it does, by
 * thread_stop_release_late().
 */
enum injector_refusal thread_stop_begin(struct thread_stop *stop, pid_t program, pid_t thread,
					bool sleeping, uint32_t wait_ms, int32_t *error);

/*
 * Before the first call: block signals, trace its new children, and make sure that it finds its way
 * back by itself if we die.  Returns 0; or -1 with errno, and it has to be restored and released.
 */
int thread_stop_prepare(struct thread_stop *stop);

/* Make our system call: see tracee_call().  Its sixth argument is one of TRAMPOLINE_*. */
int64_t thread_stop_call(struct thread_stop *stop, long call, const uint64_t arguments[6],
			 pid_t *child);

/*
 * Restore its registers and signal mask; it is still stopped and traced.  Returns 0; -1: it is
 * gone.
 */
int thread_stop_restore(struct thread_stop *stop);

/*
 * Release it, after thread_stop_restore() or before any call, with a signal that it was due, or 0.
 */
void thread_stop_detach(struct thread_stop *stop, int signal);

/* It runs, still traced: release it when it next stops by itself. */
void thread_stop_detach_later(struct thread_stop *stop);

/* Release the late threads that have stopped by now.  Returns whether there are others. */
bool thread_stop_release_late(void);

#endif
