/* SPDX-License-Identifier: GPL-2.0-or-later */
/* System calls of ours in a program that tlbcost-thp has started. */
#ifndef TLBCOST_THP_INJECTION_H
#define TLBCOST_THP_INJECTION_H

#include <stdint.h>
#include <sys/types.h>

#include "registers.h"

/* A thread between injection_begin() and injection_end().  Fields are private but `status`. */
struct injection {
	pid_t tid;
	struct registers saved;
	uint64_t mask;			/* its signals' */
	int was_stopped;		/* a stop of its process came in between */
	int stop_waits;			/* a SIGSTOP did */
	int ended;			/* it ends: ->status is a wait status to act upon */
	int status;
};

/*
 * Take a thread that is at the exit of a system call.  It must be traced with PTRACE_SEIZE and
 * PTRACE_O_TRACESYSGOOD, and die with its tracer.  It continues with `registers`.
 * Its signals wait until the end.  Returns 0, or -1 with errno.
 */
int injection_begin(struct injection *injection, pid_t tid, const struct registers *registers);

/*
 * Make the call, and wait for its end.  Returns 0 with the call's result, as
 * the kernel gives it; -1 if the thread ends (->ended) or cannot be traced.
 */
int injection_call(struct injection *injection, long call, const uint64_t arguments[6],
		   int64_t *result);

/*
 * Put registers and signals back.  The thread is still in a ptrace stop; if it
 * was stopped like its process in between, it stops again soon after.
 * Returns 0, or -1 with errno.
 */
int injection_end(struct injection *injection);

#endif
