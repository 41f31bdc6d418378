/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which processes did a process start, and are they stopped? */
#ifndef TLBCOST_LAUNCH_FAMILY_H
#define TLBCOST_LAUNCH_FAMILY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reading the processes' lists of children stops here. */
#define FAMILY_MOST 256

/* A process and those below it, parents first. */
struct family {
	pid_t pids[FAMILY_MOST];
	size_t n;
};

/*
 * Add the children of a thread.  None where the kernel has no lists of them
 * (CONFIG_PROC_CHILDREN), and none that there is no room for.
 */
void family_add_children(struct family *family, pid_t pid, pid_t tid);

/* Find a process and all below it, without `except` and what is below that (0: with all). */
void family_of(struct family *family, pid_t pid, pid_t except);

/* Send a signal to all of them, and have those that are stopped continue; children first. */
void family_signal(const struct family *family, int number);

/*
 * End what is below this process but not in `spared`: SIGTERM, and SIGKILL from `deadline`
 * (CLOCK_MONOTONIC, ns) on.  Only of a subreaper, whose every orphan is its child: else one
 * could be lost sight of.  Children that end are reaped.
 */
void family_end_rest(const struct family *spared, uint64_t deadline);

#endif
