/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which page sizes larger than the base page does this system offer, and how?
 *
 * Read from /sys below TLBCOST_ROOT.  An offer is what the settings allow; only
 * an arena's proof shows that the kernel keeps to it.
 */
#ifndef TLBCOST_OFFERS_H
#define TLBCOST_OFFERS_H

#include <stddef.h>
#include <stdint.h>

#include "arena.h"

struct offer {
	size_t page_bytes;
	enum arena_method method;
	uint64_t available_bytes;	/* in the pool; UINT64_MAX: what memory allows; 0: none */
	char reason[200];		/* why none, and what allows it; "" if some */
};

/* Room for every power of two, by transparent pages and by a pool. */
#define OFFERS_MOST 64

struct offers {
	struct offer list[OFFERS_MOST];	/* by size; transparent pages before a pool's */
	size_t count;
};

/* Find what this kernel knows, also what its settings do not allow now. */
void offers_find(struct offers *offers, size_t base_bytes);

/*
 * The offer to take for a page size: one that is available, or else one that
 * tells why not.  `method` limits it to a pool (ARENA_HUGETLB) or to transparent
 * pages of any kind (ARENA_THP); ARENA_BASE: either.  NULL: the kernel has no
 * such pages.
 */
const struct offer *offers_pick(const struct offers *offers, size_t page_bytes,
				enum arena_method method);

/*
 * The page size that programs are given as "huge": one entry of a page middle
 * directory; where the kernel tells none, the usual pool's.  0: none.
 */
size_t offers_huge_bytes(void);

#endif
