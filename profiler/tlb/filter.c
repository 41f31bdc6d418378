/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "filter.h"

void tlb_filter_init(struct tlb_filter *filter)
{
	for (uint32_t i = 0; i < TLB_FILTER_SLOTS; i++)
		filter->slot[i] = (struct tlb_filter_slot){ TLB_FILTER_EMPTY, 0 };
}

void tlb_filter_drop_views(struct tlb_slots *slots, uint32_t index)
{
	const struct tlb_view_slots *views = slots->views;
	const uint32_t *entries = views->entries + (size_t)index * views->count;
	const uint64_t time = slots->filter->slot[index].time;

	for (uint32_t i = 0; i < views->count; i++) {
		uint64_t *known;

		if (entries[i] == TLB_NO_ENTRY)
			continue;
		known = &views->times[i][entries[i]];
		*known = *known < time ? time : *known;
	}
	for (uint32_t i = 0; i < views->list_count; i++) {
		struct tlb_slot_list *link = views->link[i];

		link[link[index].previous].next = link[index].next;
		link[link[index].next].previous = link[index].previous;
	}
}
