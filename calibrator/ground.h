/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which memory is a sweep measured in, and how much of the ladder fits into it? */
#ifndef TLBCOST_GROUND_H
#define TLBCOST_GROUND_H

#include <stddef.h>
#include <stdint.h>

#include "chase.h"
#include "groups.h"
#include "machine.h"

struct ground {
	struct arena apart;
	struct arena packed;
	uint32_t *orders[2];	/* apart, packed */
	size_t usable;		/* rungs */
	size_t linked;		/* lines of the chains that are linked now; 0: none */
};

/* Bytes of memory that a chain of so many lines touches, its packed one included. */
size_t ground_bytes(const struct machine *machine, const struct series *series,
		    const struct page_kind *pages, size_t lines);

/* The rungs of the ladder that the limits on memory allow. */
size_t ground_rungs(const struct machine *machine, const struct series *series,
		    const struct page_kind *pages);

/*
 * Fresh memory for `rungs` rungs, or for what the kernel and the time give of
 * it: not more than `touch_share` of the time until `deadline_ns` of clock_ns()
 * goes into touching it.  Returns 0, or -1 with errno set if not even the first
 * rung fits (ETIME: no time, ENODATA: another page size, ENOMEM).
 */
int ground_open(struct ground *ground, const struct machine *machine,
		const struct series *series, const struct page_kind *pages, size_t rungs,
		double touch_share, uint64_t deadline_ns);

/* Is it still all of the page sizes asked for?  The kernel may split or join pages at any time. */
int ground_holds(const struct ground *ground);

/* The chain of so many lines, and its packed one, not linked yet; how many there are. */
unsigned ground_chases(const struct ground *ground, const struct machine *machine,
		       const struct series *series, size_t lines, struct chase chases[2]);

/* Safe on one that is zeroed or closed. */
void ground_close(struct ground *ground);

#endif
