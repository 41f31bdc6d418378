/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which pages does one TLB level hold?  A set-associative array of page
 * numbers, each set in order of last use (LRU).
 *
 * This folder is the model alone: it allocates nothing, does no I/O and needs
 * no library, so that any engine (a Valgrind tool today) can drive it.
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
	uint64_t *slots;	/* sets x ways page numbers, each set from the
				   most to the least recently used */
	uint32_t sets;		/* 0: there is no such level */
	uint32_t ways;
	uint32_t mask;		/* sets - 1 if sets is a power of two, else 0 */
};

/* No address space has this page number; it marks an empty slot. */
#define TLB_NO_PAGE UINT64_MAX

/* Is this a geometry that a level can have? */
static inline bool tlb_geometry_valid(struct tlb_geometry geometry)
{
	return geometry.entries == 0 ||
	       (geometry.ways > 0 && geometry.entries % geometry.ways == 0);
}

/*
 * Make an empty level of a valid geometry in the caller's memory: `slots`
 * holds geometry.entries numbers.
 */
void tlb_level_init(struct tlb_level *level, struct tlb_geometry geometry,
		    uint64_t *slots);

/* Forget all pages, as a change of address space does. */
void tlb_level_flush(struct tlb_level *level);

/* The slots of the set that `page` belongs to.  The level must exist. */
static inline uint64_t *tlb_level_set(const struct tlb_level *level,
				      uint64_t page)
{
	uint64_t set = level->mask || level->sets == 1 ? page & level->mask :
							 page % level->sets;

	return level->slots + set * level->ways;
}

/*
 * Look `page` up, and make it the most recently used of its set; if it was
 * not there, the least recently used one gives way.  Returns whether it was
 * there; false if the level does not exist.
 */
static inline bool tlb_level_access(struct tlb_level *level, uint64_t page)
{
	uint64_t *slots, carried = page;

	if (!level->sets)
		return false;
	slots = tlb_level_set(level, page);
	/* Move every page used since `page` one place down. */
	for (uint32_t way = 0; way < level->ways; way++) {
		uint64_t here = slots[way];

		slots[way] = carried;
		if (here == page)
			return true;
		carried = here;
	}
	return false;
}

#endif
