/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which pages do the first-level TLBs of further machines and page sizes hold,
 * alongside the two of first.h that they share the filter with?
 *
 * A page is in the filter only while each of them holds it, too.  The time of
 * its last use is then in the filter alone: where one of them must make room,
 * it asks there, page by page.  First levels that are alike, of several
 * machines, are one here.
 */
#ifndef TLBCOST_VIEW_LEVELS_H
#define TLBCOST_VIEW_LEVELS_H

#include "filter.h"
#include "ordered.h"

/* One first level. */
struct tlb_view_level {
	struct tlb_geometry geometry;
	uint32_t shift;			/* log2 of the page size */
	bool mapped;			/* pages that `backed` refuses are no part of it */
	struct tlb_first_level entries;
	/* If it is fully associative and large; ordered.pages NULL: it is not. */
	struct tlb_ordered ordered;
	/* Index of its page size in `list_owner`; TLB_BASE_SIZED: of base pages. */
	uint32_t list;
	/* Of each entry: the one that had its page in the level with the lists. */
	uint32_t *head;
};

#define TLB_BASE_SIZED UINT32_MAX

struct tlb_view_levels {
	struct tlb_view_level level[TLB_MOST_VIEWS];
	/* Their number, and where they hold the pages in the filter's slots. */
	struct tlb_view_slots held;
	/*
	 * The filter's slots with pages of one larger page are a circular list.
	 * Of each page size, the index of the level that has the heads of such
	 * lists, one for each of its entries.
	 */
	uint32_t list_owner[TLB_MOST_VIEWS];
	/* Where each level holds the page of the reference in hand. */
	uint32_t found[TLB_MOST_VIEWS];
	/*
	 * Can the page of 1 << shift bytes that holds the address be one, and
	 * not several smaller ones?  NULL: all can.
	 */
	bool (*backed)(uint64_t address, uint32_t shift);
};

/* Start with no levels. */
void tlb_view_levels_start(struct tlb_view_levels *levels);

/*
 * Have a level of this geometry (entries > 0) and page size, at least that of
 * base pages; returns its number, which is that of one just like it if there
 * is one.  At most TLB_MOST_VIEWS.
 */
uint32_t tlb_view_levels_add(struct tlb_view_levels *levels,
			     struct tlb_geometry geometry, uint32_t shift,
			     bool mapped, uint32_t base_shift);

/* When all are there: the bytes that tlb_view_levels_init() needs. */
size_t tlb_view_levels_bytes(const struct tlb_view_levels *levels);

/* Empty them, in the caller's memory, which is aligned for uint64_t. */
void tlb_view_levels_init(struct tlb_view_levels *levels, void *memory);

/* As tlb_first_access(), which calls it: a bit for each level that missed. */
uint32_t tlb_view_levels_access(struct tlb_view_levels *levels,
				struct tlb_slots *slots, uint64_t address,
				uint64_t time);

/* The page of the last access is put into this slot. */
void tlb_view_levels_put(struct tlb_view_levels *levels, uint32_t slot);

/* References in a batch. */
#define TLB_BATCH 256u

/* A reference that waited; its side is in the low bits of the address. */
struct tlb_pending {
	uint64_t address, time, where;
};

/*
 * So many references in a row, while the filter is suspended: the bits of
 * those that missed, from TLB_VIEWS_SHIFT on, are added to missed[], one word
 * for each reference.
 */
void tlb_view_levels_batch(struct tlb_view_levels *levels,
			   const struct tlb_pending *pending, uint32_t count,
			   uint32_t *missed);

#endif
