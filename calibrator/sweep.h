/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What do the chains of a group cost?
 *
 * A sweep times every point of every ladder once, spread and packed in turn, so that drift of
 * the machine affects all equally, and takes one sample of the core's cycle.  Sweeps are
 * repeated; some of them on fresh memory, because where the kernel puts a page matters to the
 * caches.
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
 * Run the sweeps of a group and add their samples.  What memory, time or the CPU did not allow
 * is skipped, with the reason as a note in `samples`.  Returns 0, or -1 with errno set if the
 * calibrator itself failed (no memory for its own tables).
 */
int sweep_run(const struct sweep *sweep, struct machine *machine, struct samples *samples);

/*
 * Begin a sweep: which CPU are we on?  Adds a sample of the core's cycle.  Returns the
 * number of the sweep, or -1 if the CPU is gone or, with errno set, on an error.
 */
int sweep_begin(struct machine *machine, struct samples *samples);

/* End it: if we were moved since its start, what it added after the first `count` samples is dropped. */
void sweep_end(struct machine *machine, struct samples *samples, size_t count);

/* Add a header line <what>_<page size>_<name>; without the page size if it is 0. */
void sweep_note(struct samples *samples, const char *what, size_t page_bytes, const char *name,
		const char *text);

/* Why memory, or permission to use it, was not available, from errno. */
const char *sweep_reason(int error, const struct page_kind *pages);

#endif
