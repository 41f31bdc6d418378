/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which groups are measured on which pages, and how is the time divided? */
#ifndef TLBCOST_PLAN_H
#define TLBCOST_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "groups.h"
#include "machine.h"
#include "samples.h"

#define PLAN_MOST_SIZES 16

struct plan {
	unsigned groups;		/* bits 1 << enum group_id */
	struct page_kind sizes[PLAN_MOST_SIZES];
	size_t size_count;
	const uint32_t *lines;		/* instead of every ladder; NULL: each its own */
	size_t line_count;
	unsigned sweeps;		/* instead of every number of sweeps; 0: each its own */
	uint64_t end_ns;		/* of clock_ns(): no timing starts after it */
};

/*
 * Measure group after group, each on its pages.  The remaining groups share the remaining time
 * in proportion to their weights, so one that ends early leaves the others more.  `progress`
 * of the machine is called with the share 0..1 of all that is planned.  Returns 0, or -1 with
 * errno set if the calibrator itself failed.
 */
int plan_run(const struct plan *plan, struct machine *machine, struct samples *samples);

/* Bytes that the smallest useful plan needs: a chain beyond every usual TLB on base pages. */
size_t plan_least_bytes(const struct plan *plan, const struct machine *machine);

#endif
