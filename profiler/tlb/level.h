/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which pages does a TLB level hold?  A set-associative array of page
 * numbers, each set in order of last use (LRU).
 *
 * This folder is only the model: it allocates nothing, does no I/O and needs no library, so
 * any engine (a Valgrind tool today) can drive it.
 */
#ifndef TLBCOST_LEVEL_H
#define TLBCOST_LEVEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Entries and ways of one level; fully associative if ways == entries. */
struct tlb_geometry {
	uint32_t entries;	/* a multiple of ways; 0: there is no such level */
	uint32_t ways;
};

struct tlb_level {
	uint64_t *pages;	/* sets x ways page numbers, each set from the
				   most to the least recently used */
	uint32_t sets;		/* 0: there is no such level */
	uint32_t ways;
	/*
	 * Bits by which a page's number is shifted and xored to itself before
	 * its set is chosen, as the second levels of Intel's cores since
	 * Broadwell do (Gras et al., "Translation Leak-aside Buffer", USENIX
	 * Security 2018); 64: it is used unchanged.
	 */
	uint32_t fold;
};

#define TLB_NO_FOLD 64u

/* No address space has this page number; it marks an empty entry. */
#define TLB_NO_PAGE UINT64_MAX
/* What a search that found no entry returns. */
#define TLB_NO_ENTRY UINT32_MAX

/* Is this a geometry that a level can have? */
static inline bool tlb_geometry_valid(struct tlb_geometry geometry)
{
	return geometry.entries == 0 ||
	       (geometry.ways > 0 && geometry.entries % geometry.ways == 0);
}

/* Index of the first entry of the set that `page` belongs to; sets > 0. */
static inline uint32_t tlb_set_start(uint64_t page, uint32_t sets, uint32_t ways)
{
	/* A division takes longer than the rest of a look-up. */
	uint64_t set = (sets & (sets - 1)) == 0 ? page & (sets - 1) : page % sets;

	return (uint32_t)set * ways;
}

/*
 * Make an empty level of a valid geometry in the caller's memory: `pages` holds
 * geometry.entries numbers.  Pages are not folded unless tlb_level_fold() is called, if the
 * sets are a power of two.
 */
void tlb_level_init(struct tlb_level *level, struct tlb_geometry geometry,
		    uint64_t *pages);

void tlb_level_fold(struct tlb_level *level);

/* What tlb_level_exchange() returns if the level does not exist. */
#define TLB_NO_LEVEL (TLB_NO_PAGE - 1)

/*
 * Look `page` up, and make it the most recently used of its set; if it was not there, it
 * replaces the least recently used one.  Returns the page itself if it was there, else the one
 * that it replaced: TLB_NO_PAGE if an entry was empty.
 */
static inline uint64_t tlb_level_exchange(struct tlb_level *level, uint64_t page)
{
	uint64_t *set, carried = page, index = page;

	if (!level->sets)
		return TLB_NO_LEVEL;
	if (level->fold < TLB_NO_FOLD)
		index ^= page >> level->fold;
	set = level->pages + tlb_set_start(index, level->sets, level->ways);
	/* Move every page used since `page` one place down. */
#pragma GCC unroll 8
	for (uint32_t way = 0; way < level->ways; way++) {
		uint64_t here = set[way];

		set[way] = carried;
		if (here == page)
			return page;
		carried = here;
	}
	return carried;
}

/* Was it there? */
static inline bool tlb_level_access(struct tlb_level *level, uint64_t page)
{
	return tlb_level_exchange(level, page) == page;
}

#endif
