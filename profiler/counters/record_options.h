/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What was tlbcost-record asked to do? */
#ifndef TLBCOST_COUNTERS_RECORD_OPTIONS_H
#define TLBCOST_COUNTERS_RECORD_OPTIONS_H

#include <sys/types.h>

#include "program.h"
#include "sampler.h"

struct record_options {
	struct program_options program;
	struct sampler_options sampler;
	const char *output;
	int one_by_one;		/* a row for each sample with an address */
	int quiet;		/* what the table has about events is not printed */
	pid_t pid;		/* 0: the program; -1: all processes */
	struct sampled_event *events;
	size_t event_count;
};

/*
 * Read the command line and encode the events; those that cannot be are
 * `unknown`.  Returns -1 if there is something to do, else the exit code,
 * with a message printed.
 */
int record_options_parse(int argc, char **argv, struct record_options *options);

/* Free what record_options_parse() allocated. */
void record_options_free(struct record_options *options);

#endif
