/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options of tlbcost-copies. */
#ifndef TLBCOST_COPIES_OPTIONS_H
#define TLBCOST_COPIES_OPTIONS_H

#include <stdint.h>
#include <sys/types.h>

#include "program.h"
#include "sampling.h"
#include "arms_options.h"
#include "window_options.h"

struct copies_options {
	struct program_options program;
	struct sampling_options sampling;
	struct window_options window;
	struct arms_options arms;	/* no slices: copies are followed */
	const char *out;		/* a folder that exists */
	pid_t pid;			/* 0: the program is launched */
	uint64_t seconds;		/* with pid; 0: until it ends */
	uint32_t workers;		/* 0: as many as there are CPUs to spare */
};

/*
 * Read the command line.  Returns -1 if there is something to do, else the exit code, with a
 * message printed.
 */
int copies_options_parse(int argc, char **argv, struct copies_options *options);

#endif
