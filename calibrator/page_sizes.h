/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which page sizes larger than the base page does this system offer, and how?
 *
 * Read from /sys below TLBCOST_ROOT: what the settings allow.  Only an arena's proof
 * shows that the kernel provides such pages.
 */
#ifndef TLBCOST_PAGE_SIZES_H
#define TLBCOST_PAGE_SIZES_H

#include <stddef.h>
#include <stdint.h>

#include "arena.h"

struct page_size {
	size_t page_bytes;
	enum arena_method method;
	uint64_t available_bytes;	/* in the pool; UINT64_MAX: what memory allows; 0: none */
	char reason[200];		/* why none, and how to enable it; "" if some */
};

/* Every power of two, as transparent pages and from a pool. */
#define PAGE_SIZES_MOST 64

struct page_sizes {
	struct page_size list[PAGE_SIZES_MOST];	/* by size; transparent pages before a pool's */
	size_t count;
};

/* Find what this kernel supports, including what its settings do not allow now. */
void page_sizes_find(struct page_sizes *sizes, size_t base_bytes);

/*
 * How to get pages of `page_bytes`: an available way, or else one with the reason why it is
 * not available.  `method` limits it to a pool (ARENA_HUGETLB) or to transparent pages of any
 * kind (ARENA_THP); ARENA_BASE: either.  NULL: the kernel has no such pages.
 */
const struct page_size *page_sizes_pick(const struct page_sizes *sizes, size_t page_bytes,
					enum arena_method method);

/*
 * The page size that "huge" means for programs: one entry of a page middle directory; if the
 * kernel reports none, the default pool's.  0: none.
 */
size_t page_sizes_huge_bytes(void);

#endif
