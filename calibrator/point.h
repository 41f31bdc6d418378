/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What does one access of a chain cost at one footprint, alongside its packed control? */
#ifndef TLBCOST_POINT_H
#define TLBCOST_POINT_H

#include "chain_memory.h"
#include "groups.h"
#include "machine.h"
#include "samples.h"

struct point {
	const struct group *group;	/* what is timed */
	const struct page_kind *pages;
	const struct series *series;
	struct chain_memory *memory;
	size_t lines;		/* the footprint: of series->ladder */
	unsigned number;	/* of the sweep; even: the spread chain is timed first */
};

/*
 * Time one footprint with every access of the group, in ns per access, and add the
 * samples.  Returns 0, or -1 with errno set: ENOTSUP if this CPU has no such access,
 * otherwise as samples_add() and, for jumps, code_link().
 */
int point_time(const struct point *point, struct machine *machine, struct samples *samples);

#endif
