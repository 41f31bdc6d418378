/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "others.h"

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
	memory = level_init(&first->base, base, memory);
	memory = level_init(&first->huge, huge, memory);
	first->when = memory;
	for (uint32_t i = 0; i < base.entries; i++)
		first->when[i] = &first->base.times[i];
	first->link = (struct tlb_filter_link *)(first->when + base.entries);
	for (uint32_t i = 0; i < TLB_FILTER_SLOTS + huge.entries; i++)
		first->link[i] = (struct tlb_filter_link){ 0, 0, i, i };
	first->filter = filter;
	first->suspended = false;
	first->used_again = 0;
	first->others = NULL;
	for (uint32_t i = 0; filter && i < TLB_FILTER_SLOTS; i++)
		filter->slot[i] = (struct tlb_filter_slot){ TLB_FILTER_EMPTY, 0 };
}

/* Beyond this, more of the same tells nothing new. */
#define SURE 128

/* A page was used again after a miss, or was not.  A call costs two puts. */
static inline void learn(struct tlb_first *first, bool again)
{
	if (again && first->used_again < SURE)
		first->used_again += 2;
	else if (!again && first->used_again > -SURE)
		first->used_again--;
}

/* Take a page out of the filter, and its time to where it is held. */
static inline void drop(struct tlb_first *first, uint32_t index)
{
	struct tlb_filter_slot *slot = &first->filter->slot[index];
	const struct tlb_filter_link *link = &first->link[index];
	uint64_t *base_time = &first->base.times[link->base_entry];
	uint64_t *huge_time = &first->huge.times[link->huge_entry];

	if (first->used_again > 0)
		learn(first, *base_time != slot->time);
	*base_time = slot->time;
	first->when[link->base_entry] = base_time;
	*huge_time = *huge_time < slot->time ? slot->time : *huge_time;
	first->link[link->previous].next = link->next;
	first->link[link->next].previous = link->previous;
	if (first->others)
		tlb_others_drop(first, index);
	slot->address = TLB_FILTER_EMPTY;
}

void tlb_first_drop(struct tlb_first *first, uint32_t slot)
{
	drop(first, slot);
}

/* Put a page that both levels hold into the filter. */
static inline void put(struct tlb_first *first, uint64_t address, uint64_t time,
		       uint32_t base_entry, uint32_t huge_entry)
{
	uint32_t index = tlb_filter_index(first, address);
	uint32_t head = TLB_FILTER_SLOTS + huge_entry;
	struct tlb_filter_slot *slot = &first->filter->slot[index];
	uint32_t next = first->link[head].next;

	if (slot->address != TLB_FILTER_EMPTY) {
		drop(first, index);
		next = first->link[head].next;
	}
	slot->address = address >> first->base_shift << first->base_shift;
	slot->time = time;
	first->when[base_entry] = &slot->time;
	first->link[index] = (struct tlb_filter_link){
		base_entry, huge_entry, next, head
	};
	first->link[next].previous = index;
	first->link[head].next = index;
	if (first->others)
		tlb_others_put(first, index);
}

/* The time of a huge entry's last use. */
static inline uint64_t huge_time(const struct tlb_first *first, uint32_t entry)
{
	uint64_t time = first->huge.times[entry];
	uint32_t head = TLB_FILTER_SLOTS + entry;

	for (uint32_t slot = first->link[head].next; slot != head;
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

/*
 * Hold a new base page in place of the least recently used of its set; empty
 * entries have time 0.
 */
static inline uint32_t replace_base(struct tlb_first *first, uint64_t page,
				    uint32_t start)
{
	uint64_t *const *when = first->when + start;
	uint64_t least = *when[0];
	uint32_t entry = 0, ways = first->base.ways;

	/* Without branches: none of them could be predicted. */
#pragma GCC unroll 8
	for (uint32_t way = 1; way < ways; way++) {
		uint64_t time = *when[way];

		entry = time < least ? way : entry;
		least = time < least ? time : least;
	}
	entry += start;
	if (first->when[entry] != &first->base.times[entry])
		drop(first, tlb_filter_index(first, first->base.pages[entry]
						    << first->base_shift));
	first->base.pages[entry] = page;
	return entry;
}

static inline uint32_t replace_huge(struct tlb_first *first, uint64_t huge,
				    uint32_t start)
{
	uint32_t entry = start, head;
	uint64_t least = UINT64_MAX;

	for (uint32_t other = start; other < start + first->huge.ways; other++) {
		uint64_t time = huge_time(first, other);

		entry = time < least ? other : entry;
		least = time < least ? time : least;
	}
	head = TLB_FILTER_SLOTS + entry;
	while (first->link[head].next != head)
		drop(first, first->link[head].next);
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
	if (first->suspended)
		return missed;
	if (first->others)
		missed |= tlb_others_access(first, address, time)
			  << TLB_OTHERS_SHIFT;
	if (!first->filter)
		return missed;
	if (first->others && first->used_again <= 0) {
		learn(first, !missed);
		if (missed)
			return missed;
	}
	if (first->when[base_entry] != &first->base.times[base_entry])
		*first->when[base_entry] = time;
	else
		put(first, address, time, base_entry, huge_entry);
	return missed;
}

void tlb_first_settle(struct tlb_first *first,
		      const struct tlb_filter_slot *writes, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		uint32_t index = tlb_filter_index(first, writes[i].address);
		const struct tlb_filter_slot *slot = &first->filter->slot[index];
		uint64_t last = writes[i].time;

		if (slot->time == last || slot->address == TLB_FILTER_EMPTY)
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
