/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How is one counter opened in the kernel, and what does a refusal mean? */
#ifndef TLBCOST_COUNTERS_OPEN_H
#define TLBCOST_COUNTERS_OPEN_H

#include <stdint.h>
#include <sys/types.h>

#include "encode.h"

/* In which mode of the CPU it counts; the hypervisor is always left out. */
enum count_mode { COUNT_BOTH, COUNT_USER, COUNT_KERNEL };

/* What to count, as arguments of perf_event_open(). */
struct open_target {
	pid_t pid;		/* a thread, 0: this one; -1: all; or a cgroup's descriptor */
	int cpu;		/* -1: wherever it runs */
	int is_cgroup;
	int inherit;		/* children to come are counted with it */
	int on_exec;		/* counting begins at its next execve() */
	enum count_mode mode;
};

/* What one counter read.  Times are in ns, and sums over all threads. */
struct counter_value {
	uint64_t count;
	uint64_t enabled_ns, running_ns;
};

/*
 * Open a counter for counting, disabled.  leader: the descriptor of its
 * group's first counter, which enables and disables all, or -1: it is that.
 * Returns a descriptor that closes itself at execve(), or -1 with errno.
 */
int open_counter(const struct encoding *encoding, const struct open_target *target,
		 int leader);

/* Let the group of this leader count.  Returns 0, or -1 with errno. */
int start_counters(int leader);

/* Stop the group of this leader.  Returns 0, or -1 with errno. */
int stop_counters(int leader);

/* Returns 0; or -1 with errno, ENODATA if the kernel gave the counter up. */
int read_counter(int fd, struct counter_value *value);

/* "unsupported", "forbidden" or "failed": what the errno of a refusal means. */
const char *refusal_state(int error);

#endif
