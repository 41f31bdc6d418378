/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which pages may be accessed without a call of the model, and which entries hold them?
 *
 * Nearly every reference hits the first levels of all machines.  It changes only the time of
 * last use, so an engine may handle it without a call: it looks the page up in the filter, a
 * direct-mapped table of pages that all first levels hold, and writes the time there.  Time is
 * a count of references, so the LRU order is that of the program's references, exactly as if
 * each were a call.
 *
 * While a page is in the filter, the time of its last use is only there.
 * Taking it out writes that time to each entry that holds the page.
 */
#ifndef TLBCOST_FILTER_H
#define TLBCOST_FILTER_H

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

/* Address in an empty slot: no user address is less than a page above it. */
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
 * Where the machine at hand holds the page in a slot, and the slot's neighbours
 * in the circular list of slots with pages of the same huge page.  That list
 * starts at the link behind the slots' own that belongs to the huge page's entry.
 */
struct tlb_filter_link {
	uint32_t base_entry, huge_entry;
	uint32_t next, previous;
};

/* The same neighbours for a larger page of further machines. */
struct tlb_slot_list {
	uint32_t next, previous;
};

/* Further machines, and how many different first levels they may have: see view_levels.h. */
#define TLB_MOST_VIEWS 96u
#define TLB_MOST_LEVELS 24u

/* Bits of the first levels that a reference missed. */
#define TLB_BASE_MISS 1u
#define TLB_HUGE_MISS 2u
/* From this bit on: of further machines, unless the filter is suspended. */
#define TLB_VIEWS_SHIFT 2u

/* Where further machines hold the pages in the slots. */
struct tlb_view_slots {
	uint32_t count, list_count;
	uint32_t *entries;			/* of each slot: one of each level */
	uint64_t *times[TLB_MOST_LEVELS];	/* of each level's entries */
	struct tlb_slot_list *link[TLB_MOST_LEVELS];	/* of each list: slots, then heads */
};

/* A filter, and the entries that hold its pages. */
struct tlb_slots {
	struct tlb_filter *filter;		/* NULL: do without */
	uint32_t base_shift;			/* log2 of a base page's size */
	/*
	 * With further machines, putting a page in and taking it out has a cost, but a smaller
	 * one than a call: above 0, enough missed pages are used again that they are put in
	 * at once.
	 */
	int32_t used_again;
	struct tlb_first_level base, huge;	/* of the machine at hand */
	/* For each base entry: where its time is, in `times` or in the filter. */
	uint64_t **when;
	struct tlb_filter_link *link;
	struct tlb_view_slots *views;		/* NULL: there are no further machines */
};

/* Empty all slots. */
void tlb_filter_init(struct tlb_filter *filter);

static inline uint32_t tlb_filter_index(const struct tlb_slots *slots,
					uint64_t address)
{
	return (uint32_t)(address >> slots->base_shift) % TLB_FILTER_SLOTS;
}

/* Beyond this, more of the same changes nothing. */
#define TLB_USED_AGAIN_MOST 128

/* A page was used again after a miss, or not.  A call costs two puts. */
static inline void tlb_filter_learn(struct tlb_slots *slots, bool again)
{
	if (again && slots->used_again < TLB_USED_AGAIN_MOST)
		slots->used_again += 2;
	else if (!again && slots->used_again > -TLB_USED_AGAIN_MOST)
		slots->used_again--;
}

/* The part of tlb_filter_drop() that further machines need. */
void tlb_filter_drop_views(struct tlb_slots *slots, uint32_t index);

/* Take the page in a slot, which is not empty, out of the filter. */
static inline void tlb_filter_drop(struct tlb_slots *slots, uint32_t index)
{
	struct tlb_filter_slot *slot = &slots->filter->slot[index];
	const struct tlb_filter_link *link = &slots->link[index];
	uint64_t *base_time = &slots->base.times[link->base_entry];
	uint64_t *huge_time = &slots->huge.times[link->huge_entry];

	if (slots->used_again > 0)
		tlb_filter_learn(slots, *base_time != slot->time);
	*base_time = slot->time;
	slots->when[link->base_entry] = base_time;
	*huge_time = *huge_time < slot->time ? slot->time : *huge_time;
	slots->link[link->previous].next = link->next;
	slots->link[link->next].previous = link->previous;
	if (slots->views)
		tlb_filter_drop_views(slots, index);
	slot->address = TLB_FILTER_EMPTY;
}

#endif
