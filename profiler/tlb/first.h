/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which pages do the first-level TLBs of two machines hold, one with all memory on base pages
 * and one with all memory on huge pages?
 */
#ifndef TLBCOST_FIRST_H
#define TLBCOST_FIRST_H

#include "filter.h"

struct tlb_view_levels;

/* The first levels for data, or those for instructions. */
struct tlb_first {
	struct tlb_slots slots;
	uint32_t huge_shift;		/* log2 of a huge page's size */
	bool suspended;			/* put nothing into the filter */
	/* Pages that it is never to hold, so that every reference to them is a call; or NULL. */
	bool (*withheld)(uint64_t address);
	/* Of further machines: see view_levels.h.  NULL: there are none. */
	struct tlb_view_levels *views;
};

/* Bytes that tlb_first_init() needs. */
size_t tlb_first_bytes(struct tlb_geometry base, struct tlb_geometry huge);

/*
 * Make empty first levels (entries > 0) in the caller's memory, which is
 * aligned for uint64_t, and empty the filter.  There are no views yet.
 */
void tlb_first_init(struct tlb_first *first, struct tlb_geometry base,
		    struct tlb_geometry huge, void *memory,
		    struct tlb_filter *filter);

/*
 * A reference to the base page that holds `address`, at a time later than any
 * before.  Returns which first levels missed: their bits.
 */
unsigned tlb_first_access(struct tlb_first *first, uint64_t address,
			  uint64_t time);

/*
 * The engine is about to write these times to the filter slots of these addresses without
 * checking what is in them.  Empty the slots where that would give a page the wrong time.
 */
void tlb_first_settle(struct tlb_first *first,
		      const struct tlb_filter_slot *writes, unsigned count);

/* Empty the filter and keep it empty, so that every reference is a call. */
void tlb_first_suspend(struct tlb_first *first);
void tlb_first_resume(struct tlb_first *first);

/* From now on the first levels of these, which are empty, see every reference as well. */
void tlb_first_watch(struct tlb_first *first, struct tlb_view_levels *views);

#endif
