/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How is one counter opened so that the kernel records where it overflows? */
#ifndef TLBCOST_COUNTERS_OVERFLOW_H
#define TLBCOST_COUNTERS_OVERFLOW_H

#include <stdint.h>
#include <sys/types.h>

#include "encode.h"

/* An event to sample, and the result of opening it. */
struct sampled_event {
	const char *name;
	struct encoding encoding;
	int unknown;		/* it has no encoding here, and `error` */
	uint64_t period;	/* events from sample to sample, or */
	uint64_t frequency;	/* samples a second; the other one is 0 */
	int error;		/* why no counter of it was opened; 0: one was */
	int all_modes;		/* it cannot exclude the kernel or the user */
	int counted;		/* the next fields are valid */
	uint64_t count, enabled_ns, running_ns;	/* as read at the end */
};

struct sampler_options {
	int user_only, kernel_only;
	int addresses;		/* of the data, and the mappings of data */
	int on_exec;		/* sample from the process's next execve() on */
};

/*
 * Open an event on one CPU for a thread (pid > 0) with the children that it will have, or for
 * all processes (-1).  Stopped, unless options->on_exec.  If an event source allows only some
 * periods, or cannot exclude a mode, `period` and `all_modes` say what was done instead.
 * Returns a descriptor without a buffer, or -1 with errno of perf_event_open.
 */
int overflow_open(struct sampled_event *event, const struct sampler_options *options,
		  pid_t pid, int cpu);

/*
 * The same for an event that counts nothing but reports processes and mappings, so that they
 * do not depend on any counter.
 */
int overflow_open_watcher(const struct sampler_options *options, pid_t pid, int cpu);

/*
 * Add what a counter counted to its event, and the lost samples (since Linux 6.0) to *lost.
 */
void overflow_read(struct sampled_event *event, int fd, uint64_t *lost);

#endif
