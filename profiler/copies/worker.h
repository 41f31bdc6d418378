/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What does a worker do with the jobs that it gets? */
#ifndef TLBCOST_COPIES_WORKER_H
#define TLBCOST_COPIES_WORKER_H

#include <stdbool.h>
#include <stdint.h>

#include "arms_options.h"
#include "window_options.h"
#include "copy.h"
#include "follow.h"
#include "window.h"

/* What a worker does with copies: it follows them; or, if slices are asked for, it measures. */
struct worker_options {
	const struct window_options *window;
	const struct arms_options *arms;
	/* It takes its share of the CPUs, as any program: the one that it follows is not timed. */
	bool urgent;
};

struct worker_job {
	enum {
		JOB_FOLLOW,
		JOB_WRITE,
	} what;
	struct copy copy;
	struct window_start start;
	uint64_t image;		/* copies of one image share translated code */
	uint64_t time_ns;	/* most that it may take; 0: any; arms: about */
};

struct worker_news {
	enum {
		NEWS_DEAD,	/* the copy is; its window is being modelled */
		NEWS_READY,	/* for the next job */
		NEWS_WRITTEN,	/* the tables are */
		NEWS_GONE,	/* the worker is, with its results */
	} what;
	uint32_t window;
	int32_t error;		/* errno; of NEWS_DEAD: it could not be followed */
	bool good;		/* of NEWS_DEAD: all arms finished a slice */
	enum follow_end end;
	uint64_t killed_ns;	/* CLOCK_MONOTONIC */
	uint64_t cpu_ns;	/* of the worker and the copy, since the job was given */
};

/*
 * Do jobs from the socket (workers.h) until it is closed.  Returns the exit code.  `number` is that
 * of the tables.
 */
int worker_run(int socket, const struct worker_options *options, const char *folder,
	       uint32_t number);

#endif
