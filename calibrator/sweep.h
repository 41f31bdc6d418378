/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What do the chains of a group cost?
 *
 * A sweep times every point of every ladder once, far apart and packed in turn,
 * so that a drift of the machine hits all alike, and one sample of the core's
 * cycle.  Sweeps are repeated; some of them on fresh memory, because where the
 * kernel puts a page matters to the caches.
 */
#ifndef TLBCOST_SWEEP_H
#define TLBCOST_SWEEP_H

#include <stddef.h>
#include <stdint.h>

#include "groups.h"
#include "machine.h"
#include "samples.h"

struct sweep {
	const struct group *group;
	const struct page_kind *pages;
	const struct series *series;
	size_t series_count;
	unsigned sweeps;
	uint64_t deadline_ns;	/* of clock_ns(): no timing starts after it */
};

/*
 * Run the sweeps of a group and add their samples.  What memory, time or the CPU
 * did not allow is left out, with a note of the reason in `samples`.  Returns 0,
 * or -1 with errno set if the probe itself failed (no memory for its own tables).
 */
int sweep_run(const struct sweep *sweep, struct machine *machine, struct samples *samples);

/*
 * Begin a sweep: where are we?  Adds a sample of the core's cycle.  Returns the
 * number of the sweep, or -1 if the CPU is gone or, with errno set, on an error.
 */
int sweep_begin(struct machine *machine, struct samples *samples);

/* End it: if we were moved since its start, what it added after the first `count` samples is dropped. */
void sweep_end(struct machine *machine, struct samples *samples, size_t count);

/* Add a header line <what>_<page size>_<name>; the page size is left out if it is 0. */
void sweep_note(struct samples *samples, const char *what, size_t page_bytes, const char *name,
		const char *text);

/* Why memory or the right to it could not be had, from errno. */
const char *sweep_reason(int error, const struct page_kind *pages);

#endif
