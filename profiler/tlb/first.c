/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "first.h"

#define NO_ENTRY UINT32_MAX
#define REUSE_MOST 15u

static size_t level_bytes(struct tlb_geometry geometry)
{
	size_t bytes = geometry.entries * (2 * sizeof(uint64_t) + sizeof(uint32_t));

	return (bytes + 7) & ~(size_t)7;
}

size_t tlb_first_bytes(struct tlb_geometry base, struct tlb_geometry huge)
{
	return level_bytes(base) + level_bytes(huge);
}

static void level_init(struct tlb_first_level *level,
		       struct tlb_geometry geometry, void *memory)
{
	level->pages = memory;
	level->times = level->pages + geometry.entries;
	level->slots = (uint32_t *)(level->times + geometry.entries);
	level->sets = geometry.entries / geometry.ways;
	level->ways = geometry.ways;
	for (uint32_t i = 0; i < geometry.entries; i++) {
		level->pages[i] = TLB_NO_PAGE;
		level->times[i] = 0;
		level->slots[i] = TLB_NO_SLOT;
	}
}

void tlb_first_init(struct tlb_first *first, struct tlb_geometry base,
		    struct tlb_geometry huge, void *memory,
		    struct tlb_filter *filter)
{
	level_init(&first->base, base, memory);
	level_init(&first->huge, huge, (char *)memory + level_bytes(base));
	first->filter = filter;
	first->suspended = false;
	first->reuse = REUSE_MOST;
	for (uint32_t i = 0; filter && i < TLB_FILTER_SLOTS; i++)
		filter->slot[i] = (struct tlb_filter_slot){ TLB_FILTER_EMPTY, 0 };
}

/* Take a page out of the filter, and its time to where it is held. */
static void drop(struct tlb_first *first, uint32_t index)
{
	struct tlb_filter_slot *slot = &first->filter->slot[index];
	struct tlb_filter_link *link = &first->link[index];
	uint64_t *huge_time = &first->huge.times[link->huge_entry];

	first->base.times[link->base_entry] = slot->time;
	first->base.slots[link->base_entry] = TLB_NO_SLOT;
	if (*huge_time < slot->time)
		*huge_time = slot->time;
	if (link->previous == TLB_NO_SLOT)
		first->huge.slots[link->huge_entry] = link->next;
	else
		first->link[link->previous].next = link->next;
	if (link->next != TLB_NO_SLOT)
		first->link[link->next].previous = link->previous;
	slot->address = TLB_FILTER_EMPTY;
}

/* Put a page that both levels hold into the filter. */
static void put(struct tlb_first *first, uint64_t address, uint64_t time,
		uint32_t base_entry, uint32_t huge_entry)
{
	uint32_t index = tlb_filter_index(first, address);
	struct tlb_filter_slot *slot = &first->filter->slot[index];
	uint32_t *list = &first->huge.slots[huge_entry];

	if (slot->address != TLB_FILTER_EMPTY)
		drop(first, index);
	slot->address = address >> first->base_shift << first->base_shift;
	slot->time = time;
	first->link[index] = (struct tlb_filter_link){
		base_entry, huge_entry, *list, TLB_NO_SLOT
	};
	if (*list != TLB_NO_SLOT)
		first->link[*list].previous = index;
	*list = index;
	first->base.slots[base_entry] = index;
}

/* The time of an entry's last use, wherever it is. */
static inline uint64_t base_time(const struct tlb_first *first, uint32_t entry)
{
	uint32_t slot = first->base.slots[entry];

	return slot == TLB_NO_SLOT ? first->base.times[entry] :
				     first->filter->slot[slot].time;
}

static inline uint64_t huge_time(const struct tlb_first *first, uint32_t entry)
{
	uint64_t time = first->huge.times[entry];

	for (uint32_t slot = first->huge.slots[entry]; slot != TLB_NO_SLOT;
	     slot = first->link[slot].next)
		if (first->filter->slot[slot].time > time)
			time = first->filter->slot[slot].time;
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

/* The least recently used entry of the set.  Empty entries have time 0. */
static inline uint32_t oldest(const struct tlb_first *first, uint32_t start,
			      uint32_t ways,
			      uint64_t (*time_of)(const struct tlb_first *,
						  uint32_t))
{
	uint32_t victim = start;
	uint64_t least = UINT64_MAX;

#pragma GCC unroll 8
	for (uint32_t entry = start; entry < start + ways; entry++) {
		uint64_t time = time_of(first, entry);

		victim = time < least ? entry : victim;
		least = time < least ? time : least;
	}
	return victim;
}

/* Hold a new base page in place of the least recently used of its set. */
static inline uint32_t replace_base(struct tlb_first *first, uint64_t page,
				    uint32_t start)
{
	uint32_t entry = oldest(first, start, first->base.ways, base_time);
	uint32_t slot = first->base.slots[entry];

	/* A page that was put into the filter at its first use, and whose time
	   is still the one of then, was not used again. */
	if (slot == TLB_NO_SLOT ||
	    first->filter->slot[slot].time == first->base.times[entry]) {
		if (first->reuse)
			first->reuse--;
	} else if (first->reuse < REUSE_MOST) {
		first->reuse++;
	}
	if (slot != TLB_NO_SLOT)
		drop(first, slot);
	first->base.pages[entry] = page;
	return entry;
}

static inline uint32_t replace_huge(struct tlb_first *first, uint64_t huge,
				    uint32_t start)
{
	uint32_t entry = oldest(first, start, first->huge.ways, huge_time);

	while (first->huge.slots[entry] != TLB_NO_SLOT)
		drop(first, first->huge.slots[entry]);
	first->huge.pages[entry] = huge;
	return entry;
}

unsigned tlb_first_access(struct tlb_first *first, uint64_t address,
			  uint64_t time)
{
	uint64_t page = address >> first->base_shift;
	uint64_t huge = address >> first->huge_shift;
	uint32_t start = tlb_set_start(page, first->base.sets, first->base.ways);
	uint32_t base_entry, huge_entry;
	unsigned missed = 0;

	base_entry = find(&first->base, page, start);
	if (base_entry == NO_ENTRY) {
		missed |= TLB_BASE_MISS;
		base_entry = replace_base(first, page, start);
	}
	start = tlb_set_start(huge, first->huge.sets, first->huge.ways);
	huge_entry = find(&first->huge, huge, start);
	if (huge_entry == NO_ENTRY) {
		missed |= TLB_HUGE_MISS;
		huge_entry = replace_huge(first, huge, start);
	}
	first->base.times[base_entry] = time;
	first->huge.times[huge_entry] = time;
	if (!first->filter || first->suspended)
		return missed;
	if (first->base.slots[base_entry] != TLB_NO_SLOT)
		first->filter->slot[first->base.slots[base_entry]].time = time;
	else if (!missed || first->reuse > REUSE_MOST / 2)
		/* Pages that are used once are not worth a slot. */
		put(first, address, time, base_entry, huge_entry);
	return missed;
}

void tlb_first_settle(struct tlb_first *first,
		      const struct tlb_filter_slot *writes, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		uint32_t index = tlb_filter_index(first, writes[i].address);
		struct tlb_filter_slot *slot = &first->filter->slot[index];
		uint64_t last = writes[i].time;

		if (slot->address == TLB_FILTER_EMPTY)
			continue;
		/* Of several writes to one slot, the latest stays. */
		for (unsigned j = i + 1; j < count; j++)
			if (tlb_filter_index(first, writes[j].address) == index)
				last = writes[j].time;
		if (slot->time != last)
			drop(first, index);
	}
}

void tlb_first_suspend(struct tlb_first *first)
{
	first->suspended = true;
	for (uint32_t index = 0; index < TLB_FILTER_SLOTS; index++)
		if (first->filter->slot[index].address != TLB_FILTER_EMPTY)
			drop(first, index);
}

void tlb_first_resume(struct tlb_first *first)
{
	first->suspended = false;
}
