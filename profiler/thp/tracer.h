/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What happens at each stop of a traced program, until the last of its processes has ended? */
#ifndef TLBCOST_THP_TRACER_H
#define TLBCOST_THP_TRACER_H

#include <signal.h>
#include <stdint.h>
#include <sys/types.h>

#include "reached.h"
#include "stop.h"
#include "tasks.h"

/* A program and all that it starts.  Zeroed but for what is said. */
struct tracer {
	pid_t program;			/* 0: it has ended */
	/* Set by a signal, which ends a wait: look at the memory. */
	volatile sig_atomic_t *look_due;
	struct stops stops;		/* ->huge_page_bytes is set by the caller */
	struct tasks tasks;
	struct reached reached;
};

/* Trace a process that is about to execute the program.  Returns 0, or -1 with errno. */
int tracer_seize(struct tracer *tracer, pid_t pid);

/*
 * Until the program ends, whose processes may remain: serve them by calling it
 * again with program == 0, until the last has ended.  Returns 0 with the wait
 * status of the program; 1 if none is left; -1 with errno.
 */
int tracer_run(struct tracer *tracer, int *status);

#endif
