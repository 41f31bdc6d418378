/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How are counters attached to what is counted: a program, a process, a cgroup, the system? */
#ifndef TLBCOST_COUNTERS_ATTACH_H
#define TLBCOST_COUNTERS_ATTACH_H

#include <stddef.h>
#include <sys/types.h>

#include "group.h"
#include "options.h"

/* Counters and what they are open on.  Zeroed, with a cgroup_fd of -1, is empty. */
struct attached {
	const char *failed;	/* what failed other than the counters, for a message */
	struct bank bank;
	struct open_target *targets;
	size_t cpus;		/* that are counted; 0: wherever the program runs */
	size_t missed_threads;	/* at most this many of the process are not counted */
	int cgroup_fd;
};

/*
 * Open the counters of the options, stopped, on a process that waits for its execve() (pid),
 * or on what the options name.  Returns 0; or -1 with errno: with ->failed if the target
 * cannot be found, else because no event could be opened.  Call attached_close() either way.
 */
int attach_counters(struct attached *attached, const struct count_options *options,
		    pid_t pid);

/* Close what attach_counters() opened.  Safe to call again. */
void attached_close(struct attached *attached);

#endif
