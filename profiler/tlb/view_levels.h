/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which pages do the first-level TLBs of further machines and page sizes hold,
 * alongside the two of first.h that share the filter with them?
 *
 * A page is in the filter only while each of them holds it, too.  The time of its last use is
 * then only in the filter: a level that has to evict asks there, page by page.  Identical
 * first levels of several machines are one here.
 */
#ifndef TLBCOST_VIEW_LEVELS_H
#define TLBCOST_VIEW_LEVELS_H

#include "filter.h"
#include "ordered.h"

/* One first level. */
struct tlb_view_level {
	struct tlb_geometry geometry;
	uint32_t shift;			/* log2 of the page size */
	bool mapped;			/* without pages that `backed` refuses */
	struct tlb_first_level entries;
	/* If it is fully associative and large; ordered.pages NULL: it is not. */
	struct tlb_ordered ordered;
	/* Index of its page size in `list_owner`; TLB_BASE_SIZED: of base pages. */
	uint32_t list;
	/* For each entry: the one that had its page in the level with the lists. */
	uint32_t *head;
};

#define TLB_BASE_SIZED UINT32_MAX

struct tlb_view_levels {
	struct tlb_view_level level[TLB_MOST_LEVELS];
	/* Their number, and where they hold the pages in the filter's slots. */
	struct tlb_view_slots held;
	/*
	 * The filter's slots with pages of one larger page are a circular list.  For each page
	 * size, the index of the level with the heads of these lists, one for each of its
	 * entries.
	 */
	uint32_t list_owner[TLB_MOST_LEVELS];
	/* Where each level holds the page of the current reference. */
	uint32_t found[TLB_MOST_LEVELS];
	/*
	 * Can the page of 1 << shift bytes that holds the address exist, instead of several
	 * smaller ones?  NULL: always.
	 */
	bool (*backed)(uint64_t address, uint32_t shift);
};

/* Start with no levels. */
void tlb_view_levels_start(struct tlb_view_levels *levels);

/*
 * Add a level of this geometry (entries > 0) and page size, at least that of base pages;
 * returns its number, which is that of an identical one if there is one.  At most
 * TLB_MOST_LEVELS.
 */
uint32_t tlb_view_levels_add(struct tlb_view_levels *levels,
			     struct tlb_geometry geometry, uint32_t shift,
			     bool mapped, uint32_t base_shift);

/* After all were added: the bytes that tlb_view_levels_init() needs. */
size_t tlb_view_levels_bytes(const struct tlb_view_levels *levels);

/* Make them empty, in the caller's memory, which is aligned for uint64_t. */
void tlb_view_levels_init(struct tlb_view_levels *levels, void *memory);

/* As tlb_first_access(), which calls it: a bit for each level that missed. */
uint32_t tlb_view_levels_access(struct tlb_view_levels *levels,
				struct tlb_slots *slots, uint64_t address,
				uint64_t time);

/* The page of the last access goes into this slot. */
void tlb_view_levels_put(struct tlb_view_levels *levels, uint32_t slot);

/* References in a batch. */
#define TLB_BATCH 256u

/* A queued reference; its side is in the low bits of the address. */
struct tlb_pending {
	uint64_t address, time, where;
};

/*
 * N consecutive references while the filter is suspended: the bits of those that missed, from
 * TLB_VIEWS_SHIFT on, are added to missed[], one word for each reference.
 */
void tlb_view_levels_batch(struct tlb_view_levels *levels,
			   const struct tlb_pending *pending, uint32_t count,
			   uint32_t *missed);

#endif
