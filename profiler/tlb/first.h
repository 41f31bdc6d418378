/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which pages do the first-level TLBs of two machines hold, one with all
 * memory on base pages and one with all of it on huge pages?
 *
 * Nearly every reference hits both.  All that it changes is the time of last
 * use, so an engine may handle it without a call: it looks the page up in the
 * filter, a direct-mapped table of pages that both first levels hold, and
 * writes the time there.  Time is a count of references, so the LRU order is
 * that of the program's references, exactly as if each had been a call.
 */
#ifndef TLBCOST_FIRST_H
#define TLBCOST_FIRST_H

#include "level.h"

#define TLB_FILTER_SLOTS 1024u

struct tlb_filter_slot {
	uint64_t address;	/* of the page's first byte */
	uint64_t time;		/* of its last use */
};

/* The slot of a page is its number (in base pages) modulo TLB_FILTER_SLOTS. */
struct tlb_filter {
	struct tlb_filter_slot slot[TLB_FILTER_SLOTS];
};

/* Address in an empty slot: no user address lies less than a page above it. */
#define TLB_FILTER_EMPTY (UINT64_C(1) << 63)

/*
 * One first-level TLB.  An entry's own time is out of date while pages of it
 * are in the filter.
 */
struct tlb_first_level {
	uint64_t *pages, *times;	/* sets x ways */
	uint32_t sets, ways;
};

/*
 * Where the page in a filter slot is held, and its place in the circular list
 * of slots with pages of the same huge page.  That list starts at the link
 * behind the slots' own that belongs to the huge page's entry.
 */
struct tlb_filter_link {
	uint32_t base_entry, huge_entry;
	uint32_t next, previous;
};

struct tlb_others;

/* The first levels for data, or those for instructions. */
struct tlb_first {
	struct tlb_first_level base, huge;
	/* Of each base entry: where its time is, in `times` or in the filter. */
	uint64_t **when;
	struct tlb_filter_link *link;
	uint32_t base_shift, huge_shift;	/* log2 of the page sizes */
	struct tlb_filter *filter;		/* NULL: do without */
	bool suspended;				/* put nothing into it */
	/*
	 * With others, it costs to put a page in and take it out again, but
	 * less than a call: above 0, so many pages that are missed are used
	 * again that they are put in at once.
	 */
	int32_t used_again;
	/* Of further machines: see others.h.  NULL: there are none. */
	struct tlb_others *others;
};

/* Bytes that tlb_first_init() needs. */
size_t tlb_first_bytes(struct tlb_geometry base, struct tlb_geometry huge);

/*
 * Make empty first levels (entries > 0) in the caller's memory, which is
 * aligned for uint64_t, and empty the filter.  There are no others yet.
 */
void tlb_first_init(struct tlb_first *first, struct tlb_geometry base,
		    struct tlb_geometry huge, void *memory,
		    struct tlb_filter *filter);

#define TLB_BASE_MISS 1u
#define TLB_HUGE_MISS 2u
/* From this bit on: of the others, unless the filter is suspended. */
#define TLB_OTHERS_SHIFT 2u

/*
 * A reference to the base page that holds `address`, at a time later than any
 * before.  Returns which of the two missed.
 */
unsigned tlb_first_access(struct tlb_first *first, uint64_t address,
			  uint64_t time);

/*
 * The engine is about to write these times to the filter slots of these
 * addresses, without looking at what is there.  Empty the slots where that
 * would give a page a time that is not its own.
 */
void tlb_first_settle(struct tlb_first *first,
		      const struct tlb_filter_slot *writes, unsigned count);

/* Take the page in a slot, which is not empty, out of the filter. */
void tlb_first_drop(struct tlb_first *first, uint32_t slot);

/* Empty the filter and keep it empty, so that every reference is a call. */
void tlb_first_suspend(struct tlb_first *first);
void tlb_first_resume(struct tlb_first *first);

static inline uint32_t tlb_filter_index(const struct tlb_first *first,
					uint64_t address)
{
	return (uint32_t)(address >> first->base_shift) % TLB_FILTER_SLOTS;
}

#endif
