/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "first.h"

#include "view_levels.h"

#define NO_ENTRY TLB_NO_ENTRY

size_t tlb_first_bytes(struct tlb_geometry base, struct tlb_geometry huge)
{
	return base.entries * (2 * sizeof(uint64_t) + sizeof(uint64_t *)) +
	       huge.entries * 2 * sizeof(uint64_t) +
	       (TLB_FILTER_SLOTS + huge.entries) * sizeof(struct tlb_filter_link);
}

/* Returns the memory behind the level. */
static uint64_t *level_init(struct tlb_first_level *level,
			    struct tlb_geometry geometry, uint64_t *memory)
{
	level->pages = memory;
	level->times = memory + geometry.entries;
	level->sets = geometry.entries / geometry.ways;
	level->ways = geometry.ways;
	for (uint32_t i = 0; i < geometry.entries; i++) {
		level->pages[i] = TLB_NO_PAGE;
		level->times[i] = 0;
	}
	return level->times + geometry.entries;
}

void tlb_first_init(struct tlb_first *first, struct tlb_geometry base,
		    struct tlb_geometry huge, void *memory,
		    struct tlb_filter *filter)
{
	struct tlb_slots *slots = &first->slots;

	memory = level_init(&slots->base, base, memory);
	memory = level_init(&slots->huge, huge, memory);
	slots->when = memory;
	for (uint32_t i = 0; i < base.entries; i++)
		slots->when[i] = &slots->base.times[i];
	slots->link = (struct tlb_filter_link *)(slots->when + base.entries);
	for (uint32_t i = 0; i < TLB_FILTER_SLOTS + huge.entries; i++)
		slots->link[i] = (struct tlb_filter_link){ 0, 0, i, i };
	slots->filter = filter;
	slots->used_again = 0;
	slots->views = NULL;
	first->suspended = false;
	first->withheld = NULL;
	first->views = NULL;
	if (filter)
		tlb_filter_init(filter);
}

void tlb_first_watch(struct tlb_first *first, struct tlb_view_levels *views)
{
	if (!views->held.count)
		return;
	first->views = views;
	first->slots.views = &views->held;
}

/* Put a page that both levels hold into the filter. */
static inline void put(struct tlb_first *first, uint64_t address, uint64_t time,
		       uint32_t base_entry, uint32_t huge_entry)
{
	struct tlb_slots *slots = &first->slots;
	uint32_t index = tlb_filter_index(slots, address);
	uint32_t head = TLB_FILTER_SLOTS + huge_entry;
	struct tlb_filter_slot *slot = &slots->filter->slot[index];
	uint32_t next = slots->link[head].next;

	if (slot->address != TLB_FILTER_EMPTY) {
		tlb_filter_drop(slots, index);
		next = slots->link[head].next;
	}
	slot->address = address >> slots->base_shift << slots->base_shift;
	slot->time = time;
	slots->when[base_entry] = &slot->time;
	slots->link[index] = (struct tlb_filter_link){
		base_entry, huge_entry, next, head
	};
	slots->link[next].previous = index;
	slots->link[head].next = index;
	if (slots->views)
		tlb_view_levels_put(first->views, index);
}

/* The time of a huge entry's last use. */
static inline uint64_t huge_time(const struct tlb_slots *slots, uint32_t entry)
{
	uint64_t time = slots->huge.times[entry];
	uint32_t head = TLB_FILTER_SLOTS + entry;

	for (uint32_t slot = slots->link[head].next; slot != head;
	     slot = slots->link[slot].next)
		if (slots->filter->slot[slot].time > time)
			time = slots->filter->slot[slot].time;
	return time;
}

static inline uint32_t find(const struct tlb_first_level *level, uint64_t page,
			    uint32_t start)
{
	const uint64_t *pages = level->pages + start;
	uint32_t ways = level->ways;

#pragma GCC unroll 8
	for (uint32_t way = 0; way < ways; way++)
		if (pages[way] == page)
			return start + way;
	return NO_ENTRY;
}

/*
 * Replace the least recently used page of the set by a new base page; empty entries have time
 * 0.
 */
static inline uint32_t replace_base(struct tlb_slots *slots, uint64_t page,
				    uint32_t start)
{
	uint64_t *const *when = slots->when + start;
	uint64_t least = *when[0];
	uint32_t entry = 0, ways = slots->base.ways;

	/* Without branches: they would be unpredictable. */
#pragma GCC unroll 8
	for (uint32_t way = 1; way < ways; way++) {
		uint64_t time = *when[way];

		entry = time < least ? way : entry;
		least = time < least ? time : least;
	}
	entry += start;
	if (slots->when[entry] != &slots->base.times[entry])
		tlb_filter_drop(slots, tlb_filter_index(slots, slots->base.pages[entry]
						    << slots->base_shift));
	slots->base.pages[entry] = page;
	return entry;
}

static inline uint32_t replace_huge(struct tlb_slots *slots, uint64_t huge,
				    uint32_t start)
{
	uint32_t entry = start, head;
	uint64_t least = UINT64_MAX;

	for (uint32_t other = start; other < start + slots->huge.ways; other++) {
		uint64_t time = huge_time(slots, other);

		entry = time < least ? other : entry;
		least = time < least ? time : least;
	}
	head = TLB_FILTER_SLOTS + entry;
	while (slots->link[head].next != head)
		tlb_filter_drop(slots, slots->link[head].next);
	slots->huge.pages[entry] = huge;
	return entry;
}

unsigned tlb_first_access(struct tlb_first *first, uint64_t address,
			  uint64_t time)
{
	struct tlb_slots *slots = &first->slots;
	uint64_t page = address >> slots->base_shift;
	uint64_t huge = address >> first->huge_shift;
	uint32_t start = tlb_set_start(page, slots->base.sets, slots->base.ways);
	uint32_t base_entry, huge_entry;
	unsigned missed = 0;

	base_entry = find(&slots->base, page, start);
	if (base_entry == NO_ENTRY) {
		missed |= TLB_BASE_MISS;
		base_entry = replace_base(slots, page, start);
	}
	start = tlb_set_start(huge, slots->huge.sets, slots->huge.ways);
	huge_entry = find(&slots->huge, huge, start);
	if (huge_entry == NO_ENTRY) {
		missed |= TLB_HUGE_MISS;
		huge_entry = replace_huge(slots, huge, start);
	}
	slots->base.times[base_entry] = time;
	slots->huge.times[huge_entry] = time;
	if (first->suspended)
		return missed;
	if (slots->views)
		missed |= tlb_view_levels_access(first->views, slots,
						 address, time)
			  << TLB_VIEWS_SHIFT;
	if (!slots->filter)
		return missed;
	if (slots->views && slots->used_again <= 0) {
		tlb_filter_learn(slots, !missed);
		if (missed)
			return missed;
	}
	if (slots->when[base_entry] != &slots->base.times[base_entry])
		*slots->when[base_entry] = time;
	else if (!first->withheld || !first->withheld(address))
		put(first, address, time, base_entry, huge_entry);
	return missed;
}

void tlb_first_settle(struct tlb_first *first,
		      const struct tlb_filter_slot *writes, unsigned count)
{
	struct tlb_slots *slots = &first->slots;

	for (unsigned i = 0; i < count; i++) {
		uint32_t index = tlb_filter_index(slots, writes[i].address);
		const struct tlb_filter_slot *slot = &slots->filter->slot[index];
		uint64_t last = writes[i].time;

		if (slot->time == last || slot->address == TLB_FILTER_EMPTY)
			continue;
		/* Of several writes to one slot, the last one wins. */
		for (unsigned j = i + 1; j < count; j++)
			if (tlb_filter_index(slots, writes[j].address) == index)
				last = writes[j].time;
		if (slot->time != last)
			tlb_filter_drop(slots, index);
	}
}

void tlb_first_suspend(struct tlb_first *first)
{
	struct tlb_slots *slots = &first->slots;

	first->suspended = true;
	for (uint32_t index = 0; index < TLB_FILTER_SLOTS; index++)
		if (slots->filter->slot[index].address != TLB_FILTER_EMPTY)
			tlb_filter_drop(slots, index);
}

void tlb_first_resume(struct tlb_first *first)
{
	first->suspended = false;
}
