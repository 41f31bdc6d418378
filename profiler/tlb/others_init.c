/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How the levels of others.h come to be, and lie in memory. */
#include "others.h"

/* Larger sets are not searched way by way. */
#define MOST_SEARCHED 16u

void tlb_others_start(struct tlb_others *others)
{
	others->count = 0;
	others->list_count = 0;
	others->backed = NULL;
}

uint32_t tlb_others_add(struct tlb_others *others, struct tlb_geometry geometry,
			uint32_t shift, bool mapped, uint32_t base_shift)
{
	struct tlb_other *other = &others->other[others->count];
	uint32_t lists = 0;

	for (uint32_t i = 0; i < others->count; i++)
		if (others->other[i].shift == shift &&
		    others->other[i].mapped == mapped &&
		    others->other[i].geometry.entries == geometry.entries &&
		    others->other[i].geometry.ways == geometry.ways)
			return i;
	*other = (struct tlb_other){ .geometry = geometry, .shift = shift,
				     .mapped = mapped };
	if (shift == base_shift)
		lists = TLB_BASE_SIZED;
	while (lists < others->list_count &&
	       (others->other[others->lists[lists].owner].shift != shift ||
		others->other[others->lists[lists].owner].mapped != mapped))
		lists++;
	if (lists == others->list_count)
		others->lists[others->list_count++].owner = others->count;
	other->lists = lists;
	return others->count++;
}

static bool is_ordered(struct tlb_geometry geometry)
{
	return geometry.ways == geometry.entries &&
	       geometry.entries > MOST_SEARCHED;
}

/* Heads are uint32_t, and uint64_t follow. */
static size_t head_words(uint32_t entries)
{
	return (entries + 1u) / 2 * 2;
}

static size_t link_count(const struct tlb_others *others,
			 const struct tlb_slot_lists *lists)
{
	return TLB_FILTER_SLOTS + others->other[lists->owner].geometry.entries;
}

size_t tlb_others_bytes(const struct tlb_others *others)
{
	/* The filter's slots are an even number. */
	size_t bytes = (size_t)TLB_FILTER_SLOTS * others->count * sizeof(uint32_t);

	for (uint32_t i = 0; i < others->count; i++) {
		const struct tlb_geometry geometry = others->other[i].geometry;

		bytes += geometry.entries * 2 * sizeof(uint64_t);
		bytes += head_words(geometry.entries) * sizeof(uint32_t);
		if (is_ordered(geometry))
			bytes += tlb_ordered_bytes(geometry.entries);
	}
	for (uint32_t i = 0; i < others->list_count; i++)
		bytes += link_count(others, &others->lists[i]) *
			 sizeof(struct tlb_slot_list);
	return bytes;
}

static void *level_init(struct tlb_other *other, uint64_t *memory)
{
	const struct tlb_geometry geometry = other->geometry;
	char *rest;

	other->level = (struct tlb_first_level){
		.pages = memory,
		.times = memory + geometry.entries,
		.sets = geometry.entries / geometry.ways,
		.ways = geometry.ways,
	};
	other->head = (uint32_t *)(other->level.times + geometry.entries);
	for (uint32_t i = 0; i < geometry.entries; i++) {
		other->level.pages[i] = TLB_NO_PAGE;
		other->level.times[i] = 0;
		other->head[i] = 0;
	}
	rest = (char *)(other->head + head_words(geometry.entries));
	other->ordered.pages = NULL;
	if (is_ordered(geometry)) {
		tlb_ordered_init(&other->ordered, geometry.entries,
				 other->level.pages, rest);
		rest += tlb_ordered_bytes(geometry.entries);
	}
	return rest;
}

void tlb_others_init(struct tlb_others *others, void *memory)
{
	for (uint32_t i = 0; i < others->count; i++)
		memory = level_init(&others->other[i], memory);
	for (uint32_t i = 0; i < others->list_count; i++) {
		struct tlb_slot_lists *lists = &others->lists[i];
		const uint32_t count = (uint32_t)link_count(others, lists);

		lists->link = memory;
		for (uint32_t j = 0; j < count; j++)
			lists->link[j] = (struct tlb_slot_list){ j, j };
		memory = lists->link + count;
	}
	others->entries = memory;
}
