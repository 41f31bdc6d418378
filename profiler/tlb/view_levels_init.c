/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How are the levels of view_levels.h made, and laid out in memory? */
#include "view_levels.h"

/* Larger sets are not searched way by way. */
#define MOST_SEARCHED 16u

void tlb_view_levels_start(struct tlb_view_levels *levels)
{
	levels->held.count = 0;
	levels->held.list_count = 0;
	levels->backed = NULL;
}

uint32_t tlb_view_levels_add(struct tlb_view_levels *levels,
			     struct tlb_geometry geometry, uint32_t shift,
			     bool mapped, uint32_t base_shift)
{
	struct tlb_view_slots *held = &levels->held;
	struct tlb_view_level *level = levels->level;
	uint32_t list = 0;

	for (; level < levels->level + held->count; level++)
		if (level->shift == shift && level->mapped == mapped &&
		    level->geometry.entries == geometry.entries &&
		    level->geometry.ways == geometry.ways)
			return (uint32_t)(level - levels->level);
	*level = (struct tlb_view_level){
		.geometry = geometry, .shift = shift, .mapped = mapped,
	};
	if (shift == base_shift)
		list = TLB_BASE_SIZED;
	while (list < held->list_count) {
		const struct tlb_view_level *owner =
			&levels->level[levels->list_owner[list]];

		if (owner->shift == shift && owner->mapped == mapped)
			break;
		list++;
	}
	if (list == held->list_count)
		levels->list_owner[held->list_count++] = held->count;
	level->list = list;
	return held->count++;
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

static size_t link_count(const struct tlb_view_levels *levels, uint32_t list)
{
	return TLB_FILTER_SLOTS +
	       levels->level[levels->list_owner[list]].geometry.entries;
}

size_t tlb_view_levels_bytes(const struct tlb_view_levels *levels)
{
	/* The filter's slots are an even number. */
	size_t bytes = (size_t)TLB_FILTER_SLOTS * levels->held.count *
		       sizeof(uint32_t);

	for (uint32_t i = 0; i < levels->held.count; i++) {
		const struct tlb_geometry geometry = levels->level[i].geometry;

		bytes += geometry.entries * 2 * sizeof(uint64_t);
		bytes += head_words(geometry.entries) * sizeof(uint32_t);
		if (is_ordered(geometry))
			bytes += tlb_ordered_bytes(geometry.entries);
	}
	for (uint32_t i = 0; i < levels->held.list_count; i++)
		bytes += link_count(levels, i) * sizeof(struct tlb_slot_list);
	return bytes;
}

static void *level_init(struct tlb_view_level *level, uint64_t *memory)
{
	const struct tlb_geometry geometry = level->geometry;
	char *rest;

	level->entries = (struct tlb_first_level){
		.pages = memory,
		.times = memory + geometry.entries,
		.sets = geometry.entries / geometry.ways,
		.ways = geometry.ways,
	};
	level->head = (uint32_t *)(level->entries.times + geometry.entries);
	for (uint32_t i = 0; i < geometry.entries; i++) {
		level->entries.pages[i] = TLB_NO_PAGE;
		level->entries.times[i] = 0;
		level->head[i] = 0;
	}
	rest = (char *)(level->head + head_words(geometry.entries));
	level->ordered.pages = NULL;
	if (is_ordered(geometry)) {
		tlb_ordered_init(&level->ordered, geometry.entries,
				 level->entries.pages, rest);
		rest += tlb_ordered_bytes(geometry.entries);
	}
	return rest;
}

void tlb_view_levels_init(struct tlb_view_levels *levels, void *memory)
{
	struct tlb_view_slots *held = &levels->held;

	for (uint32_t i = 0; i < held->count; i++) {
		memory = level_init(&levels->level[i], memory);
		held->times[i] = levels->level[i].entries.times;
	}
	for (uint32_t i = 0; i < held->list_count; i++) {
		const uint32_t count = (uint32_t)link_count(levels, i);
		struct tlb_slot_list *link = memory;

		for (uint32_t j = 0; j < count; j++)
			link[j] = (struct tlb_slot_list){ j, j };
		held->link[i] = link;
		memory = link + count;
	}
	held->entries = memory;
}
