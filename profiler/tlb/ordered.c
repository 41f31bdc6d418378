/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ordered.h"

/* log2 of a number of buckets that is at least twice the entries. */
static uint32_t bucket_bits(uint32_t entries)
{
	uint32_t bits = 1;

	while (1u << bits < 2 * entries)
		bits++;
	return bits;
}

size_t tlb_ordered_bytes(uint32_t entries)
{
	size_t words = entries + ((size_t)1 << bucket_bits(entries));

	/* Whole uint64_t, since others follow. */
	return (entries + 1u) * sizeof(struct tlb_place) +
	       (words + 1) / 2 * 2 * sizeof(uint32_t);
}

void tlb_ordered_init(struct tlb_ordered *ordered, uint32_t entries,
		      uint64_t *pages, void *memory)
{
	const uint32_t bits = bucket_bits(entries);

	ordered->entries = entries;
	ordered->bucket_shift = 64 - bits;
	ordered->pages = pages;
	ordered->places = memory;
	ordered->chain = (uint32_t *)(ordered->places + entries + 1);
	ordered->bucket = ordered->chain + entries;
	for (uint32_t i = 0; i <= entries; i++)
		ordered->places[i] = (struct tlb_place){
			0, i ? i - 1 : entries, i < entries ? i + 1 : 0
		};
	for (uint32_t i = 0; i < entries; i++)
		ordered->chain[i] = TLB_NO_ENTRY;
	for (uint32_t i = 0; i < 1u << bits; i++)
		ordered->bucket[i] = TLB_NO_ENTRY;
}

void tlb_ordered_replace(struct tlb_ordered *ordered, uint32_t entry,
			 uint64_t page, uint64_t time)
{
	uint32_t *at;

	if (ordered->pages[entry] != TLB_NO_PAGE) {
		at = &ordered->bucket[tlb_ordered_bucket(ordered,
							 ordered->pages[entry])];
		while (*at != entry)
			at = &ordered->chain[*at];
		*at = ordered->chain[entry];
	}
	ordered->pages[entry] = page;
	at = &ordered->bucket[tlb_ordered_bucket(ordered, page)];
	ordered->chain[entry] = *at;
	*at = entry;
	ordered->places[entry].time = time;
	tlb_ordered_move(ordered, entry,
			 ordered->places[ordered->entries].earlier);
}
