/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How is a thread of a running program stopped, made to do calls of ours, and let go as if nothing
 * had happened?
 *
 * No option of ptrace that could hurt it is ever set, and it gets no signal from us.
 */
#ifndef TLBCOST_COPIES_THREAD_STOP_H
#define TLBCOST_COPIES_THREAD_STOP_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

#include "trampoline.h"
#include "injector.h"

/* A stopped thread.  For reading. */
struct thread_stop {
	pid_t program, thread;
	struct trampoline trampoline;		/* where it makes our calls */
	struct user_regs_struct own;	/* with what it continues */
	struct user_regs_struct start;	/* with what a copy of it begins: outside of system calls */
	uint64_t mask;			/* its signals' */
	uint64_t since_ns;		/* CLOCK_MONOTONIC */
	bool restarted, rewound, rseq_aborted;	/* see injector.h */
	bool called;			/* has made calls of ours */
};

/*
 * Stop it, if it is at a place where it can make calls.  Returns INJECTED; or why not, with errno
 * in *error, and then it is as it was.  One that does not stop in time is let go when it does, by
 * thread_stop_release_late().
 */
enum injector_refusal thread_stop_begin(struct thread_stop *stop, pid_t program, pid_t thread,
					bool sleeping, uint32_t wait_ms, int32_t *error);

/*
 * Before the first call: signals wait, children that it gets are traced, and it finds its way back
 * by itself if we end.  Returns 0; or -1 with errno, and it has to be restored and let go.
 */
int thread_stop_prepare(struct thread_stop *stop);

/* A system call of ours: see tracee_call(); its sixth argument is one of TRAMPOLINE_*. */
int64_t thread_stop_call(struct thread_stop *stop, long call, const uint64_t arguments[6],
			 pid_t *child);

/*
 * Give it back what is its own.  It is still stopped and traced.  Returns 0; -1 if it is gone.
 */
int thread_stop_restore(struct thread_stop *stop);

/* Let go of it, restored or without a call made; with a signal that it was to get, or 0. */
void thread_stop_detach(struct thread_stop *stop, int signal);

/* It runs, still traced: let go of it when it stops next, by itself. */
void thread_stop_detach_later(struct thread_stop *stop);

/* Let go of the threads that were to stop, and have.  Returns whether there are others. */
bool thread_stop_release_late(void);

#endif
