/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which footprints are measured, how often, and how the time is shared out? */
#ifndef TLBCOST_PLAN_H
#define TLBCOST_PLAN_H

#include <stddef.h>

#include "sweep.h"

/*
 * Measure one page size of the machine (its base or its huge one): page faults
 * first, then the chains, ending before start_ns + limit_ns of clock_ns().
 * `progress` of the machine is called with the share 0..1 of all that is planned
 * for `sizes` page sizes, of which `done` are finished.  Returns 0, or -1 with
 * errno set if the probe itself failed.
 */
struct plan {
	size_t page_bytes;
	uint64_t start_ns;
	uint64_t limit_ns;
	unsigned done, sizes;
};

int plan_run(const struct plan *plan, struct sweep_machine *machine, struct samples *samples);

/* Bytes that the least useful plan needs: a chain beyond every known TLB on base pages. */
size_t plan_least_bytes(const struct sweep_machine *machine);

#endif
