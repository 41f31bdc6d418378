/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which memory is an address in?  Looked up once for each base page, and kept
 * in a table of huge-page-sized regions until what is mapped there changes.
 */
#include "attribution.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"

/* What is kept of a page: its place's number, and if it was touched. */
#define TOUCHED 0x8000u
#define PLACE 0x7fffu
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
	return 1u << (tlbsim.config.page_shift[TLB_HUGE] -
		      tlbsim.config.page_shift[TLB_BASE]);
}

static UShort *page_in(struct region *region, ULong address)
{
	return &region->pages[(address >> tlbsim.config.page_shift[TLB_BASE]) &
			      (pages_in_region() - 1)];
}

/* The region's slot, or the free one where it belongs. */
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
	ULong number = address >> tlbsim.config.page_shift[TLB_HUGE];
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

/* Look the page up, and what is around it in the region. */
static void resolve(struct region *region, ULong address)
{
	const UInt shift = tlbsim.config.page_shift[TLB_BASE];
	ULong start = address, end = address + 1, first;
	UShort *page = page_in(region, address);
	UInt place = places_resolve(address, &start, &end), i;

	*page = (UShort)place;
	if (!place)
		return;
	/* Extents and segments begin and end with pages. */
	first = region->number << tlbsim.config.page_shift[TLB_HUGE];
	for (i = 0; i < pages_in_region(); i++) {
		ULong at = first + ((ULong)i << shift);

		if (at >= start && at < end && !region->pages[i])
			region->pages[i] = (UShort)place;
	}
}

struct place *places_find(ULong address)
{
	struct region *region = region_of(address);
	UShort *page = page_in(region, address);

	if (!*page)
		resolve(region, address);
	return &places[*page & PLACE];
}

static Bool has_touched(const struct region *region, UInt place)
{
	for (UInt i = 0; i < pages_in_region(); i++)
		if (region->pages[i] == (place | TOUCHED))
			return True;
	return False;
}

static void more(ULong *now, ULong *most)
{
	if (++*now > *most)
		*most = *now;
}

void places_walked(ULong address)
{
	struct region *region = region_of(address);
	UShort *page = page_in(region, address);
	struct place *place;

	if (*page & TOUCHED || !*page)
		return;
	place = &places[*page];
	if (!has_touched(region, *page))
		more(&place->regions, &place->most_regions);
	more(&place->pages, &place->most_pages);
	*page = (UShort)(*page | TOUCHED);
}

#define MOST_SHARING 64u

static void forget_in(struct region *region, ULong start, ULong end)
{
	const UInt shift = tlbsim.config.page_shift[TLB_BASE];
	ULong first = region->number << tlbsim.config.page_shift[TLB_HUGE];
	UInt seen[MOST_SHARING], count = 0;

	for (UInt i = 0; i < pages_in_region(); i++) {
		UInt place = region->pages[i] & PLACE, known = 0;
		ULong at = first + ((ULong)i << shift);

		if (at + (1ULL << shift) <= start || at >= end)
			continue;
		if (region->pages[i] & TOUCHED) {
			places[place].pages--;
			while (known < count && seen[known] != place)
				known++;
			if (known == count && count < MOST_SHARING)
				seen[count++] = place;
		}
		region->pages[i] = 0;
	}
	for (UInt i = 0; i < count; i++)
		if (!has_touched(region, seen[i]))
			places[seen[i]].regions--;
}

void places_forget(ULong start, ULong end)
{
	const UInt shift = tlbsim.config.page_shift[TLB_HUGE];
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

void places_start(void)
{
	for (UInt i = 0; i < capacity; i++)
		VG_(free)(regions[i]);
	VG_(free)(regions);
	regions = NULL;
	last = NULL;
	capacity = used = 0;
	grow();
	for (UInt i = 0; i < place_count; i++) {
		struct place *place = &places[i];

		place->pages = place->most_pages = 0;
		place->regions = place->most_regions = 0;
		place->most_bytes = place->bytes;
		VG_(memset)(place->counted, 0, sizeof(place->counted));
		VG_(memset)(place->modelled, 0, sizeof(place->modelled));
		VG_(memset)(place->paid, 0, sizeof(place->paid));
	}
}
