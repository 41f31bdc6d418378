/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "others.h"

/* The slot that has a base page's time, or NULL. */
static inline const struct tlb_filter_slot *slot_of(const struct tlb_first *first,
						    uint64_t page)
{
	const struct tlb_filter_slot *slot =
		&first->filter->slot[page % TLB_FILTER_SLOTS];

	return slot->address == page << first->base_shift ? slot : NULL;
}

/* The list of slots with pages of an entry of larger pages; NULL: none is. */
static inline struct tlb_slot_list *list_of(const struct tlb_others *others,
					    const struct tlb_other *other,
					    uint32_t entry, uint32_t *head)
{
	const struct tlb_slot_lists *lists = &others->lists[other->lists];
	const struct tlb_other *owner = &others->other[lists->owner];

	if (owner->level.pages[other->head[entry]] != other->level.pages[entry])
		return NULL;
	*head = TLB_FILTER_SLOTS + other->head[entry];
	return lists->link;
}

/* The time of an entry's last use, or any that is at least `enough`. */
static inline uint64_t time_of(const struct tlb_first *first,
			       const struct tlb_other *other, uint32_t entry,
			       uint64_t enough)
{
	uint64_t time = other->level.times[entry];
	const struct tlb_filter_slot *slot;
	const struct tlb_slot_list *link;
	uint32_t head;

	if (other->lists == TLB_BASE_SIZED) {
		slot = slot_of(first, other->level.pages[entry]);
		return slot ? slot->time : time;
	}
	link = list_of(first->others, other, entry, &head);
	if (!link)
		return time;
	for (uint32_t i = link[head].next; i != head && time < enough;
	     i = link[i].next)
		if (first->filter->slot[i].time > time)
			time = first->filter->slot[i].time;
	return time;
}

/* The entry that is to give way; `apart`: no time is in the filter. */
static inline uint32_t least(const struct tlb_first *first,
			     struct tlb_other *other, uint32_t start, bool apart)
{
	struct tlb_ordered *ordered = &other->ordered;
	uint64_t earliest = UINT64_MAX, time;
	uint32_t entry = start;

	if (ordered->pages) {
		for (;;) {
			entry = tlb_ordered_first(ordered);
			time = apart ? other->level.times[entry]
				     : time_of(first, other, entry, UINT64_MAX);
			if (time == ordered->places[entry].time)
				return entry;
			tlb_ordered_used(ordered, time);
		}
	}
	for (uint32_t i = start; i < start + other->level.ways; i++) {
		time = apart ? other->level.times[i]
			     : time_of(first, other, i, earliest);
		entry = time < earliest ? i : entry;
		earliest = time < earliest ? time : earliest;
	}
	return entry;
}

/* Take what an entry holds out of the filter. */
static void expel(struct tlb_first *first, struct tlb_other *other,
		  uint32_t entry)
{
	const struct tlb_filter_slot *slot;
	struct tlb_slot_list *link;
	uint32_t head;

	if (other->lists == TLB_BASE_SIZED) {
		slot = slot_of(first, other->level.pages[entry]);
		if (slot)
			tlb_first_drop(first,
				       (uint32_t)(slot - first->filter->slot));
		return;
	}
	link = list_of(first->others, other, entry, &head);
	while (link && link[head].next != head)
		tlb_first_drop(first, link[head].next);
}

static inline uint32_t find(const struct tlb_other *other, uint64_t page,
			    uint32_t start)
{
	const uint64_t *pages = other->level.pages + start;
	const uint32_t ways = other->level.ways;

	if (other->ordered.pages)
		return tlb_ordered_find(&other->ordered, page);
#pragma GCC unroll 8
	for (uint32_t way = 0; way < ways; way++)
		if (pages[way] == page)
			return start + way;
	return TLB_NO_ENTRY;
}

/* Returns the page's entry, and whether it was not there before. */
static inline uint32_t use(struct tlb_first *first, struct tlb_other *other,
			   uint64_t page, uint64_t time, bool apart, bool *miss)
{
	const uint32_t start = tlb_set_start(page, other->level.sets,
					     other->level.ways);
	uint32_t entry = find(other, page, start);

	*miss = entry == TLB_NO_ENTRY;
	if (*miss) {
		entry = least(first, other, start, apart);
		if (!apart)
			expel(first, other, entry);
		if (other->ordered.pages)
			tlb_ordered_replace(&other->ordered, entry, page, time);
		else
			other->level.pages[entry] = page;
	}
	other->level.times[entry] = time;
	return entry;
}

/* Is a page of that size out of the question there? */
static inline bool outside(const struct tlb_others *others,
			   const struct tlb_other *other, uint64_t address)
{
	return other->mapped && others->backed &&
	       !others->backed(address, other->shift);
}

uint32_t tlb_others_access(struct tlb_first *first, uint64_t address,
			   uint64_t time)
{
	struct tlb_others *others = first->others;
	const bool apart = !first->filter;
	uint32_t missed = 0;

	for (uint32_t i = 0; i < others->count; i++) {
		struct tlb_other *other = &others->other[i];
		bool miss;

		others->found[i] = TLB_NO_ENTRY;
		if (outside(others, other, address))
			continue;
		others->found[i] = use(first, other, address >> other->shift,
				       time, apart, &miss);
		missed |= (uint32_t)miss << i;
	}
	return missed;
}

void tlb_others_batch(struct tlb_others *others,
		      const struct tlb_pending *pending, uint32_t count,
		      uint32_t *missed)
{
	for (uint32_t i = 0; i < others->count; i++) {
		struct tlb_other *other = &others->other[i];
		uint64_t last = TLB_NO_PAGE;
		uint32_t entry = 0;

		for (uint32_t j = 0; j < count; j++) {
			const uint64_t page = pending[j].address >> other->shift;
			bool miss = false;

			if (page == last) {
				other->level.times[entry] = pending[j].time;
				continue;
			}
			if (outside(others, other, pending[j].address))
				continue;
			entry = use(NULL, other, page, pending[j].time, true,
				    &miss);
			missed[j] |= (uint32_t)miss << (i + TLB_OTHERS_SHIFT);
			last = page;
		}
	}
}

void tlb_others_put(struct tlb_first *first, uint32_t slot)
{
	struct tlb_others *others = first->others;
	uint32_t *entries = others->entries + (size_t)slot * others->count;

	for (uint32_t i = 0; i < others->count; i++) {
		struct tlb_other *other = &others->other[i];

		entries[i] = others->found[i];
		if (other->lists != TLB_BASE_SIZED && entries[i] != TLB_NO_ENTRY)
			other->head[entries[i]] =
				others->found[others->lists[other->lists].owner];
	}
	for (uint32_t i = 0; i < others->list_count; i++) {
		const struct tlb_slot_lists *lists = &others->lists[i];
		struct tlb_slot_list *link = lists->link;
		const uint32_t owner = others->found[lists->owner];
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

void tlb_others_drop(struct tlb_first *first, uint32_t slot)
{
	struct tlb_others *others = first->others;
	const uint32_t *entries = others->entries + (size_t)slot * others->count;
	const uint64_t time = first->filter->slot[slot].time;

	for (uint32_t i = 0; i < others->count; i++) {
		uint64_t *known;

		if (entries[i] == TLB_NO_ENTRY)
			continue;
		known = &others->other[i].level.times[entries[i]];
		*known = *known < time ? time : *known;
	}
	for (uint32_t i = 0; i < others->list_count; i++) {
		struct tlb_slot_list *link = others->lists[i].link;

		link[link[slot].previous].next = link[slot].next;
		link[link[slot].next].previous = link[slot].previous;
	}
}
