/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which threads does a process have, which CPUs are there, where is a cgroup? */
#ifndef TLBCOST_COUNTERS_TARGETS_H
#define TLBCOST_COUNTERS_TARGETS_H

#include <stddef.h>
#include <sys/types.h>

/* Numbers of threads or CPUs, ascending.  Zeroed is empty. */
struct numbers {
	int *at;
	size_t count;
};

/* The threads that a process has now.  Returns 0, or -1 with errno (ESRCH: none). */
int targets_threads(struct numbers *threads, pid_t pid);

/* The CPUs that are online.  Returns 0, or -1 with errno. */
int targets_cpus(struct numbers *cpus);

/* Are all of `some` in `all`? */
int numbers_include(const struct numbers *all, const struct numbers *some);

/* Forget them: zeroed again. */
void numbers_free(struct numbers *numbers);

/*
 * Open the folder of a cgroup: an absolute path; or one below the mount of the
 * hierarchy that counters belong to, version 1's perf_event or version 2.
 * Returns a descriptor that closes itself at execve(), or -1 with errno.
 */
int targets_cgroup(const char *path);

#endif
