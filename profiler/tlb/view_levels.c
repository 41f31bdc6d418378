/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "view_levels.h"

/* The slot that has a base page's time, or NULL. */
static inline const struct tlb_filter_slot *slot_of(const struct tlb_slots *slots,
						    uint64_t page)
{
	const struct tlb_filter_slot *slot =
		&slots->filter->slot[page % TLB_FILTER_SLOTS];

	return slot->address == page << slots->base_shift ? slot : NULL;
}

/* The list of slots with pages of an entry of larger pages; NULL: none. */
static inline struct tlb_slot_list *list_of(const struct tlb_view_levels *levels,
					    const struct tlb_view_level *level,
					    uint32_t entry, uint32_t *head)
{
	const struct tlb_view_level *owner =
		&levels->level[levels->list_owner[level->list]];

	if (owner->entries.pages[level->head[entry]] !=
	    level->entries.pages[entry])
		return NULL;
	*head = TLB_FILTER_SLOTS + level->head[entry];
	return levels->held.link[level->list];
}

/* The time of an entry's last use, or any that is at least `enough`. */
static inline uint64_t time_of(const struct tlb_view_levels *levels,
			       const struct tlb_slots *slots,
			       const struct tlb_view_level *level,
			       uint32_t entry, uint64_t enough)
{
	uint64_t time = level->entries.times[entry];
	const struct tlb_filter_slot *slot;
	const struct tlb_slot_list *link;
	uint32_t head;

	if (level->list == TLB_BASE_SIZED) {
		slot = slot_of(slots, level->entries.pages[entry]);
		return slot ? slot->time : time;
	}
	link = list_of(levels, level, entry, &head);
	if (!link)
		return time;
	for (uint32_t i = link[head].next; i != head && time < enough;
	     i = link[i].next)
		if (slots->filter->slot[i].time > time)
			time = slots->filter->slot[i].time;
	return time;
}

/* The entry to be replaced; `slots` NULL: no time is in a filter. */
static inline uint32_t least(const struct tlb_view_levels *levels,
			     const struct tlb_slots *slots,
			     struct tlb_view_level *level, uint32_t start)
{
	struct tlb_ordered *ordered = &level->ordered;
	uint64_t earliest = UINT64_MAX, time;
	uint32_t entry = start;

	if (ordered->pages) {
		for (;;) {
			entry = tlb_ordered_first(ordered);
			time = slots ? time_of(levels, slots, level, entry,
					       UINT64_MAX)
				     : level->entries.times[entry];
			if (time == ordered->places[entry].time)
				return entry;
			tlb_ordered_used(ordered, time);
		}
	}
	for (uint32_t i = start; i < start + level->entries.ways; i++) {
		time = slots ? time_of(levels, slots, level, i, earliest)
			     : level->entries.times[i];
		entry = time < earliest ? i : entry;
		earliest = time < earliest ? time : earliest;
	}
	return entry;
}

/* Take an entry's pages out of the filter. */
static void expel(const struct tlb_view_levels *levels, struct tlb_slots *slots,
		  const struct tlb_view_level *level, uint32_t entry)
{
	const struct tlb_filter_slot *slot;
	const struct tlb_slot_list *link;
	uint32_t head;

	if (level->list == TLB_BASE_SIZED) {
		slot = slot_of(slots, level->entries.pages[entry]);
		if (slot)
			tlb_filter_drop(slots,
					(uint32_t)(slot - slots->filter->slot));
		return;
	}
	link = list_of(levels, level, entry, &head);
	while (link && link[head].next != head)
		tlb_filter_drop(slots, link[head].next);
}

static inline uint32_t find(const struct tlb_view_level *level, uint64_t page,
			    uint32_t start)
{
	const uint64_t *pages = level->entries.pages + start;
	const uint32_t ways = level->entries.ways;

	if (level->ordered.pages)
		return tlb_ordered_find(&level->ordered, page);
#pragma GCC unroll 8
	for (uint32_t way = 0; way < ways; way++)
		if (pages[way] == page)
			return start + way;
	return TLB_NO_ENTRY;
}

/*
 * Returns the page's entry, and whether it was not there before.  `slots` NULL:
 * no page is in a filter.
 */
static inline uint32_t use(const struct tlb_view_levels *levels,
			   struct tlb_slots *slots,
			   struct tlb_view_level *level, uint64_t page,
			   uint64_t time, bool *miss)
{
	const uint32_t start = tlb_set_start(page, level->entries.sets,
					     level->entries.ways);
	uint32_t entry = find(level, page, start);

	*miss = entry == TLB_NO_ENTRY;
	if (*miss) {
		entry = least(levels, slots, level, start);
		if (slots)
			expel(levels, slots, level, entry);
		if (level->ordered.pages)
			tlb_ordered_replace(&level->ordered, entry, page, time);
		else
			level->entries.pages[entry] = page;
	}
	level->entries.times[entry] = time;
	return entry;
}

/* Is a page of that size impossible there? */
static inline bool outside(const struct tlb_view_levels *levels,
			   const struct tlb_view_level *level, uint64_t address)
{
	return level->mapped && levels->backed &&
	       !levels->backed(address, level->shift);
}

uint32_t tlb_view_levels_access(struct tlb_view_levels *levels,
				struct tlb_slots *slots, uint64_t address,
				uint64_t time)
{
	const uint32_t count = levels->held.count;
	uint32_t missed = 0;

	if (!slots->filter)
		slots = NULL;
	for (uint32_t i = 0; i < count; i++) {
		struct tlb_view_level *level = &levels->level[i];
		bool miss;

		levels->found[i] = TLB_NO_ENTRY;
		if (outside(levels, level, address))
			continue;
		levels->found[i] = use(levels, slots, level,
				       address >> level->shift, time, &miss);
		missed |= (uint32_t)miss << i;
	}
	return missed;
}

void tlb_view_levels_batch(struct tlb_view_levels *levels,
			   const struct tlb_pending *pending, uint32_t count,
			   uint32_t *missed)
{
	for (uint32_t i = 0; i < levels->held.count; i++) {
		struct tlb_view_level *level = &levels->level[i];
		uint64_t last = TLB_NO_PAGE;
		uint32_t entry = 0;

		for (uint32_t j = 0; j < count; j++) {
			const uint64_t page = pending[j].address >> level->shift;
			bool miss = false;

			if (page == last) {
				level->entries.times[entry] = pending[j].time;
				continue;
			}
			if (outside(levels, level, pending[j].address))
				continue;
			entry = use(levels, NULL, level, page, pending[j].time,
				    &miss);
			missed[j] |= (uint32_t)miss << (i + TLB_VIEWS_SHIFT);
			last = page;
		}
	}
}

void tlb_view_levels_put(struct tlb_view_levels *levels, uint32_t slot)
{
	const struct tlb_view_slots *held = &levels->held;
	uint32_t *entries = held->entries + (size_t)slot * held->count;

	for (uint32_t i = 0; i < held->count; i++) {
		struct tlb_view_level *level = &levels->level[i];

		entries[i] = levels->found[i];
		if (level->list != TLB_BASE_SIZED && entries[i] != TLB_NO_ENTRY)
			level->head[entries[i]] =
				levels->found[levels->list_owner[level->list]];
	}
	for (uint32_t i = 0; i < held->list_count; i++) {
		struct tlb_slot_list *link = held->link[i];
		const uint32_t owner = levels->found[levels->list_owner[i]];
		const uint32_t head = TLB_FILTER_SLOTS + owner;
		uint32_t next;

		/* No larger page holds it: a list of its own. */
		link[slot] = (struct tlb_slot_list){ slot, slot };
		if (owner == TLB_NO_ENTRY)
			continue;
		next = link[head].next;
		link[slot] = (struct tlb_slot_list){ next, head };
		link[next].previous = slot;
		link[head].next = slot;
	}
}
