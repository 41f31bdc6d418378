/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which memory are the chains of a series in, and how much of the ladder fits into it? */
#ifndef TLBCOST_CHAIN_MEMORY_H
#define TLBCOST_CHAIN_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "chase.h"
#include "groups.h"
#include "machine.h"

struct chain_memory {
	struct arena apart;
	struct arena packed;
	uint32_t *orders[2];	/* apart, packed */
	size_t usable;		/* points of the ladder that fit */
	size_t linked;		/* lines of the chains that are linked now; 0: none */
};

/* Bytes of memory that a chain of this many lines touches, including its packed one. */
size_t chain_memory_bytes(const struct machine *machine, const struct series *series,
			  const struct page_kind *pages, size_t lines);

/* How many points of the ladder, from the first, the limits on memory allow. */
size_t chain_memory_points(const struct machine *machine, const struct series *series,
			   const struct page_kind *pages);

/*
 * Fresh memory for the ladder's first `points` points, or for as many as the kernel
 * and the time allow: at most `touch_share` of the time until `deadline_ns` of
 * clock_ns() goes into touching it.  Returns 0, or -1 with errno set if not even the
 * first point fits (ETIME: no time, ENODATA: another page size, ENOMEM).
 */
int chain_memory_open(struct chain_memory *memory, const struct machine *machine,
		      const struct series *series, const struct page_kind *pages, size_t points,
		      double touch_share, uint64_t deadline_ns);

/*
 * Is it still all of the page sizes asked for?  Returns 1 or 0.  The kernel may split
 * or join pages at any time.
 */
int chain_memory_holds(const struct chain_memory *memory);

/*
 * The chains of `lines` lines, not linked yet: chases[0] is spread, chases[1] is its packed
 * control.  Returns how many there are: 1 for a series without a control.
 */
unsigned chain_memory_chases(const struct chain_memory *memory, const struct machine *machine,
			     const struct series *series, size_t lines, struct chase chases[2]);

/* Unmap the memory.  Safe on one that is zeroed or closed. */
void chain_memory_close(struct chain_memory *memory);

#endif
