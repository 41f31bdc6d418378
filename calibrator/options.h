/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What was the calibrator asked to do? */
#ifndef TLBCOST_OPTIONS_H
#define TLBCOST_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

enum { DONE = 0, FAILED = 1, USAGE = 2, CANNOT_MEASURE = 4 };

#define MAX_SIZES 4

struct options {
	const char *output;
	const char *huge_method;	/* NULL: choose */
	size_t page_sizes[MAX_SIZES];
	unsigned size_count;		/* 0: base and huge pages */
	size_t max_memory;		/* 0: half of what is free */
	double time_limit;
	uint64_t seed;
	int progress_fd;		/* -1: none */
};

/* Tell what failed and why, and what to type, on standard error.  Returns `code`. */
int complain(int code, const char *what, const char *why, const char *hint);

/* Read the command line over the defaults in *options.  Returns -1 to go on, or an exit code. */
int parse_options(int argc, char **argv, struct options *options);

#endif
