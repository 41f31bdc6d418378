/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What was the calibrator asked to do? */
#ifndef TLBCOST_OPTIONS_H
#define TLBCOST_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plan.h"

enum { DONE = 0, FAILED = 1, USAGE = 2 };

#define MOST_LINES 512

struct options {
	const char *output;
	const char *huge_method;	/* NULL: choose */
	unsigned groups;		/* bits 1 << enum group_id */
	uint32_t lines[MOST_LINES];	/* ascending */
	size_t line_count;		/* 0: each group's own */
	unsigned sweeps;		/* 0: each group's own */
	size_t page_sizes[PLAN_MOST_SIZES];
	size_t size_count;		/* 0: base and huge pages */
	bool at_hand;			/* see first_touch.h */
	size_t first_touch_bytes;	/* not 0: time first touches of so much memory alone */
	size_t max_memory_bytes;	/* 0: half of the free memory */
	double time_limit_s;
	uint64_t seed;
	int cpu;			/* -1: the one that we are on */
	int progress_fd;		/* -1: none */
};

/* Read the command line over the defaults in *options.  Returns -1 to go on, or an exit code. */
int parse_options(int argc, char **argv, struct options *options);

#endif
