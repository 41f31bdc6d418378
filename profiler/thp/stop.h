/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is done where a program gets memory: at the system calls of traced_calls.h? */
#ifndef TLBCOST_THP_STOP_H
#define TLBCOST_THP_STOP_H

#include <stdint.h>

#include "tasks.h"

/* What came of it. */
struct stops {
	uint64_t huge_page_bytes;
	int text;		/* code is copied to huge pages, too */
	uint64_t requests;	/* areas that asked for huge pages */
	unsigned filtered;	/* how often a program set a seccomp filter, */
	unsigned disabled;	/* turned transparent huge pages off for itself, */
	unsigned ptraced;	/* or called ptrace */
};

/*
 * The thread is stopped at the entry of a traced call (PTRACE_EVENT_SECCOMP).
 * Returns 0 and has resumed it; or 1 if memory is about to be unmapped, and
 * it is to be resumed.
 */
int stop_at_call(struct stops *stops, struct task *task);

/*
 * It is stopped at the exit of that call (TASK_IN_CALL).  Resumes it and
 * returns 0; or returns 1 if it ended or is about to, with *status as wait()
 * gives it, to be acted upon.
 */
int stop_after_call(struct stops *stops, struct task *task, int *status);

#endif
