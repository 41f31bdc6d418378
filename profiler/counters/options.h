/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What was tlbcost-count asked to do? */
#ifndef TLBCOST_COUNTERS_OPTIONS_H
#define TLBCOST_COUNTERS_OPTIONS_H

#include <stddef.h>
#include <sys/types.h>

#include "group.h"
#include "program.h"
#include "rows.h"

struct count_options {
	struct event *events;
	size_t event_count;
	int room;		/* programmable counters of a group; 0: not given */
	int multiplex;
	int inherit;
	enum count_mode mode;
	enum scope scope;
	pid_t pid;		/* of SCOPE_PROCESS */
	const char *cgroup;	/* of SCOPE_CGROUP */
	unsigned interval_ms;	/* 0: one row for the whole */
	const char *output;
	int quiet;		/* the caller says why nothing could be counted */
	struct program_options program;
	char *const *specs;	/* of --encode, ended by NULL; else NULL */
};

/*
 * Read the command line; events are encoded, or have the reason why they cannot be.  A mistake
 * ends the program with exit code 125 and a hint.
 */
void count_options_read(struct count_options *options, int argc, char **argv);

/* Free what count_options_read() allocated. */
void count_options_free(struct count_options *options);

#endif
