/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How is a stopped thread made to do a system call of ours, and none the wiser? */
#ifndef TLBCOST_THP_INJECTION_H
#define TLBCOST_THP_INJECTION_H

#include <stdint.h>
#include <sys/types.h>

#include "registers.h"

/* A thread between injection_begin() and injection_end().  Fields are private but `status`. */
struct injection {
	pid_t tid;
	uint64_t instruction;		/* see registers_make_call() */
	struct registers saved;
	uint64_t mask;			/* its signals' */
	int was_stopped;		/* a stop of its process came in between */
	int stop_waits;			/* a SIGSTOP did */
	int ended;			/* it ends: ->status is a wait status to act upon */
	int status;
};

/*
 * Take a thread that is at the exit of a system call, or in any ptrace stop if
 * `instruction` is given.  It must be traced with PTRACE_SEIZE and
 * PTRACE_O_TRACESYSGOOD.  `registers`: what it is to continue with.
 * Its signals wait until the end.  Returns 0, or -1 with errno.
 */
int injection_begin(struct injection *injection, pid_t tid, uint64_t instruction,
		    const struct registers *registers);

/*
 * Make the call, and wait for its end.  Returns 0 with the call's result, as
 * the kernel gives it; -1 if the thread ends (->ended) or cannot be traced.
 */
int injection_call(struct injection *injection, long call, const uint64_t arguments[3],
		   int64_t *result);

/*
 * Put registers and signals back.  The thread is still in a ptrace stop; if it
 * was stopped like its process in between, it stops again soon after.
 * Returns 0, or -1 with errno.
 */
int injection_end(struct injection *injection);

#endif
