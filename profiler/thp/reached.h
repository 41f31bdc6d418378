/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How much anonymous memory did the traced processes have at most, and how much on huge pages? */
#ifndef TLBCOST_THP_REACHED_H
#define TLBCOST_THP_REACHED_H

#include <stdint.h>
#include <sys/types.h>

#include "tasks.h"

/* At the peak.  Zeroed: nothing was seen.  `seen` and below are for reading. */
struct reached {
	uint64_t round, largest, looked_ns, took_ns;	/* private */
	int seen;
	uint64_t anonymous_bytes, huge_bytes;	/* memory of two processes counts twice */
	unsigned processes;
};

/*
 * Look at all processes, if they may be at their peak.  `always`: one of them
 * ends, and there is no later; otherwise it takes at most a fiftieth of the time.
 */
void reached_look(struct reached *reached, const struct tasks *tasks, int always);

/*
 * Anonymous memory of one process, on pages of all sizes and on huge ones (a
 * part of it).  Returns 0, or -1 with errno if that may not be read.
 */
int reached_of(pid_t pid, uint64_t *anonymous_bytes, uint64_t *huge_bytes);

#endif
