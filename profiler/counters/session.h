/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How does one counting run proceed, from its table to its last row? */
#ifndef TLBCOST_COUNTERS_SESSION_H
#define TLBCOST_COUNTERS_SESSION_H

#include <stdint.h>
#include <sys/types.h>

#include "attach.h"
#include "options.h"
#include "program.h"
#include "rows.h"
#include "table.h"

/* A run.  `failed`, `refused` and `end_fd` are for reading, the others are private. */
struct session {
	const char *failed;	/* what failed, for a message; NULL: see the program */
	int refused;		/* errno: no event could be opened; the table can be written */
	int end_fd;		/* readable when the process counted has ended; -1: none */
	const struct count_options *options;
	struct table table;
	struct attached attached;
	struct counter_value *values, *before;
	struct rows_header header;
	struct watch_hook tick;
	int timer_fd;
	int polls;		/* without a pidfd the process is polled at each tick */
	uint64_t start_ns;
};

/* Create the table, unless it cannot be written.  Returns 0, or -1 with errno and ->failed. */
int session_open(struct session *session, const struct count_options *options);

/*
 * Open the counters, and start them unless they wait for the program's execve(); for struct
 * child_plan.  Returns 0; or -1 with errno, and ->refused or ->failed.
 */
int session_attach(pid_t pid, void *session);

/* The hook to call while the program runs, or NULL. */
const struct watch_hook *session_hook(const struct session *session);

/* Give the counters of this program itself something to count. */
void session_exercise(void);

/*
 * Stop counting, write the rows and give the table its name.  program: it ran,
 * or was refused, or a running process was counted.  Returns 0, or -1 with errno and
 * ->failed; then nothing is left of the table.
 */
int session_close(struct session *session, const struct program *program);

/* Abandon the table. */
void session_discard(struct session *session);

#endif
