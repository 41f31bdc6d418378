/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What has a process cost up to now? */
#ifndef TLBCOST_REGION_READING_H
#define TLBCOST_REGION_READING_H

#include <stdint.h>
#include <sys/types.h>

/* All of its threads, those that have ended too; not its children. */
struct reading {
	uint64_t wall_ns;	/* CLOCK_MONOTONIC */
	uint64_t user_ns, system_ns;
	uint64_t minor_faults, major_faults;
};

/* Returns 0, or -1 with errno. */
int reading_take(struct reading *reading, pid_t pid);

/* Add what lies between two readings. */
void reading_add(struct reading *sum, const struct reading *from, const struct reading *to);

#endif
