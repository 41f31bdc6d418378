/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "mappings.h"
#include "options.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"

/* Kept for each page: its mapping's number, and whether it was touched. */
#define TOUCHED 0x8000u
#define MAPPING 0x7fffu
#define FIRST_CAPACITY 1024u

struct region {
	ULong number;
	UShort pages[];		/* 0: not known yet, or nothing mapped */
};

static struct region **regions;		/* hash table */
static UInt capacity, used;
static struct region *last;		/* found */

static UInt pages_in_region(void)
{
	return 1u << (options.tlb.page_shift[TLB_HUGE] -
		      options.tlb.page_shift[TLB_BASE]);
}

static UShort *page_in(struct region *region, ULong address)
{
	return &region->pages[(address >> options.tlb.page_shift[TLB_BASE]) &
			      (pages_in_region() - 1)];
}

/* The region's slot, or the free slot where it belongs. */
static struct region **slot_of(ULong number)
{
	/* Fibonacci hashing, as in touched.c. */
	for (ULong i = (number * 0x9e3779b97f4a7c15ULL) >> 32;; i++) {
		struct region **slot = &regions[i & (capacity - 1)];

		if (!*slot || (*slot)->number == number)
			return slot;
	}
}

static void grow(void)
{
	struct region **old = regions;
	UInt count = capacity;

	capacity = capacity ? 2 * capacity : FIRST_CAPACITY;
	regions = VG_(calloc)("tlbsim.regions", capacity, sizeof(struct region *));
	for (UInt i = 0; i < count; i++)
		if (old[i])
			*slot_of(old[i]->number) = old[i];
	VG_(free)(old);
}

static struct region *region_of(ULong address)
{
	ULong number = address >> options.tlb.page_shift[TLB_HUGE];
	struct region **slot;

	if (last && last->number == number)
		return last;
	slot = slot_of(number);
	if (!*slot) {
		if (2 * used >= capacity) {
			grow();
			slot = slot_of(number);
		}
		*slot = VG_(calloc)("tlbsim.region", 1,
				    sizeof(struct region) +
					    pages_in_region() * sizeof(UShort));
		(*slot)->number = number;
		used++;
	}
	return last = *slot;
}

/* Look the page up, and its surroundings in the region. */
static void resolve(struct region *region, ULong address)
{
	const UInt shift = options.tlb.page_shift[TLB_BASE];
	ULong start = address, end = address + 1, first;
	UShort *page = page_in(region, address);
	UInt mapping = mappings_resolve(address, &start, &end), i;

	*page = (UShort)mapping;
	if (!mapping)
		return;
	/* Extents and segments begin and end with pages. */
	first = region->number << options.tlb.page_shift[TLB_HUGE];
	for (i = 0; i < pages_in_region(); i++) {
		ULong at = first + ((ULong)i << shift);

		if (at >= start && at < end && !region->pages[i])
			region->pages[i] = (UShort)mapping;
	}
}

struct mapping *mappings_find(ULong address)
{
	struct region *region = region_of(address);
	UShort *page = page_in(region, address);

	if (!*page)
		resolve(region, address);
	return &mappings[*page & MAPPING];
}

static Bool has_touched(const struct region *region, UInt mapping)
{
	for (UInt i = 0; i < pages_in_region(); i++)
		if (region->pages[i] == (mapping | TOUCHED))
			return True;
	return False;
}

static void more(ULong *now, ULong *most)
{
	if (++*now > *most)
		*most = *now;
}

void mappings_walked(ULong address)
{
	struct region *region = region_of(address);
	UShort *page = page_in(region, address);
	struct mapping *mapping;

	if (*page & TOUCHED || !*page)
		return;
	mapping = &mappings[*page];
	if (!has_touched(region, *page))
		more(&mapping->regions, &mapping->most_regions);
	more(&mapping->pages, &mapping->most_pages);
	*page = (UShort)(*page | TOUCHED);
}

#define MOST_SHARING 64u

static void forget_in(struct region *region, ULong start, ULong end)
{
	const UInt shift = options.tlb.page_shift[TLB_BASE];
	ULong first = region->number << options.tlb.page_shift[TLB_HUGE];
	UInt seen[MOST_SHARING], count = 0;

	for (UInt i = 0; i < pages_in_region(); i++) {
		UInt mapping = region->pages[i] & MAPPING, known = 0;
		ULong at = first + ((ULong)i << shift);

		if (at + (1ULL << shift) <= start || at >= end)
			continue;
		if (region->pages[i] & TOUCHED) {
			mappings[mapping].pages--;
			while (known < count && seen[known] != mapping)
				known++;
			if (known == count && count < MOST_SHARING)
				seen[count++] = mapping;
		}
		region->pages[i] = 0;
	}
	for (UInt i = 0; i < count; i++)
		if (!has_touched(region, seen[i]))
			mappings[seen[i]].regions--;
}

void mappings_forget(ULong start, ULong end)
{
	const UInt shift = options.tlb.page_shift[TLB_HUGE];
	ULong first = start >> shift, past = (end + (1ULL << shift) - 1) >> shift;

	if (start >= end || !capacity)
		return;
	if (past - first <= capacity) {
		for (ULong number = first; number < past; number++) {
			struct region *region = *slot_of(number);

			if (region)
				forget_in(region, start, end);
		}
		return;
	}
	for (UInt i = 0; i < capacity; i++)
		if (regions[i] && regions[i]->number >= first &&
		    regions[i]->number < past)
			forget_in(regions[i], start, end);
}

void mappings_start(void)
{
	for (UInt i = 0; i < capacity; i++)
		VG_(free)(regions[i]);
	VG_(free)(regions);
	regions = NULL;
	last = NULL;
	capacity = used = 0;
	grow();
	for (UInt i = 0; i < mapping_count; i++) {
		struct mapping *mapping = &mappings[i];

		mapping->pages = mapping->most_pages = 0;
		mapping->regions = mapping->most_regions = 0;
		mapping->most_bytes = mapping->bytes;
		VG_(memset)(mapping->counted, 0, sizeof(mapping->counted));
		VG_(memset)(mapping->modelled, 0, sizeof(mapping->modelled));
		VG_(memset)(mapping->waited, 0, sizeof(mapping->waited));
	}
}
