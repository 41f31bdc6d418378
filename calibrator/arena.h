/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Memory of one page size, and its proof. */
#ifndef TLBCOST_ARENA_H
#define TLBCOST_ARENA_H

#include <stddef.h>
#include <stdint.h>

enum arena_method {
	ARENA_BASE,	/* the kernel's base pages: MADV_NOHUGEPAGE */
	ARENA_THP,	/* transparent huge pages, of the size of a page middle directory's entry */
	ARENA_MTHP,	/* smaller transparent huge pages ("multi-size"), since Linux 6.8 */
	ARENA_HUGETLB,	/* pages from a hugetlb pool: MAP_HUGETLB */
};

/* Private; read `memory` and `pages` only. */
struct arena {
	char *memory;		/* aligned to a page of the size asked for */
	size_t pages;		/* proven so far, from the start of memory */
	size_t page_bytes;
	size_t reserved_pages;
	enum arena_method method;
	char *mapping;		/* with its guard pages */
	size_t mapping_bytes;
};

/* What smaps says about a range of addresses, in bytes. */
struct arena_proof {
	uint64_t resident;
	uint64_t transparent_huge;
	uint64_t hugetlb;
	uint64_t swapped;
	uint64_t kernel_page;	/* the largest seen */
};

/*
 * Reserve address space for `pages` pages of `page_bytes`; no memory is used yet.  Returns 0,
 * or -1 with errno set (EINVAL: no such page size for this method, ENOMEM: the pool or the
 * address space is exhausted; ARENA_MTHP: or vm.max_map_count is below half of `pages`).
 *
 * No setting of the system is changed: page_sizes.h says which sizes it allows.
 */
int arena_open(struct arena *arena, enum arena_method method, size_t page_bytes,
	       size_t pages);

/*
 * Touch pages until there are `pages`, the first byte of each, and prove that all of them have
 * the page size asked for: from /proc/thread-self/smaps, which does not show multi-size pages.
 * Their proof: no mapping of the arena can hold an aligned larger page, and the first touch of
 * each page made all of it resident (mincore), which a fault that gets a smaller page never
 * does.  What could not be proven is released to the kernel.  Stops early, without an error,
 * at `deadline_ns` of clock_ns(); arena->pages is the number reached.  Returns 0, or -1 with
 * errno set; ENODATA: the kernel gave another page size.
 */
int arena_extend(struct arena *arena, size_t pages, uint64_t deadline_ns);

/* Read smaps for the arena's whole range.  Returns 0, or -1 with errno set. */
int arena_prove(const struct arena *arena, struct arena_proof *proof);

/* Is it still all of the page size asked for?  Returns 1 or 0; -1 with errno set. */
int arena_holds(const struct arena *arena);

/* Unmap the memory.  Safe on an arena that is zeroed or closed. */
void arena_close(struct arena *arena);

#endif
