/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which page of a large fully associative TLB was used least recently?  Its entries are found
 * by a hash table, and form a list by time of use.  They may have been used later: an entry is
 * only moved when it is about to be replaced.
 */
#ifndef TLBCOST_ORDERED_H
#define TLBCOST_ORDERED_H

#include "level.h"

struct tlb_ordered {
	uint64_t *pages;	/* the level's own; NULL: there is no such TLB */
	/* One for each entry, and a last one that joins both ends of the list. */
	struct tlb_place {
		uint64_t time;	/* at which its entry was used, or later */
		uint32_t earlier, later;
	} *places;
	uint32_t *bucket, *chain;	/* entries by hash */
	uint32_t entries, bucket_shift;
};

size_t tlb_ordered_bytes(uint32_t entries);

/* All entries are empty and unused, in the caller's memory. */
void tlb_ordered_init(struct tlb_ordered *ordered, uint32_t entries,
		      uint64_t *pages, void *memory);

static inline uint32_t tlb_ordered_bucket(const struct tlb_ordered *ordered,
					  uint64_t page)
{
	return (uint32_t)(page * UINT64_C(0x9e3779b97f4a7c15) >>
			  ordered->bucket_shift);
}

/* The page's entry, or TLB_NO_ENTRY. */
static inline uint32_t tlb_ordered_find(const struct tlb_ordered *ordered,
					uint64_t page)
{
	uint32_t entry = ordered->bucket[tlb_ordered_bucket(ordered, page)];

	while (entry != TLB_NO_ENTRY && ordered->pages[entry] != page)
		entry = ordered->chain[entry];
	return entry;
}

/* The entry that comes first in the list. */
static inline uint32_t tlb_ordered_first(const struct tlb_ordered *ordered)
{
	return ordered->places[ordered->entries].later;
}

/* Move the entry behind that one. */
static inline void tlb_ordered_move(struct tlb_ordered *ordered, uint32_t entry,
				    uint32_t behind)
{
	struct tlb_place *places = ordered->places, *place = &places[entry];

	if (entry == behind)
		return;
	places[place->earlier].later = place->later;
	places[place->later].earlier = place->earlier;
	place->earlier = behind;
	place->later = places[behind].later;
	places[place->later].earlier = entry;
	places[behind].later = entry;
}

/* The entry that comes first was used at this time. */
static inline void tlb_ordered_used(struct tlb_ordered *ordered, uint64_t time)
{
	struct tlb_place *places = ordered->places;
	const uint32_t entry = tlb_ordered_first(ordered);
	uint32_t behind = places[ordered->entries].earlier, before = entry;

	/* Its place is near either end: it was used again immediately, or just now. */
	places[entry].time = time;
	for (;;) {
		if (places[behind].time <= time)
			break;
		behind = places[behind].earlier;
		before = places[before].later;
		if (places[before].time >= time) {
			behind = places[before].earlier;
			break;
		}
	}
	tlb_ordered_move(ordered, entry, behind);
}

/*
 * Replace the entry's page by this one, used at a time later than any before.
 */
void tlb_ordered_replace(struct tlb_ordered *ordered, uint32_t entry,
			 uint64_t page, uint64_t time);

#endif
