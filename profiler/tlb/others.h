/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which pages do the first-level TLBs of further machines and page sizes hold,
 * beside the two of first.h that they share the filter with?
 *
 * A page is in the filter only while each of them holds it, too.  The time of
 * its last use is then in the filter alone: where one of them must make room,
 * it asks there, page by page.  First levels that are alike, of several
 * machines, are one here.
 */
#ifndef TLBCOST_OTHERS_H
#define TLBCOST_OTHERS_H

#include "first.h"
#include "ordered.h"

/* Levels, and views (see views.h): their numbers are bits of a word. */
#define TLB_MOST_VIEWS 24u

/* One first level. */
struct tlb_other {
	struct tlb_geometry geometry;
	uint32_t shift;			/* log2 of the page size */
	bool mapped;			/* pages that `backed` refuses are no part of it */
	struct tlb_first_level level;
	/* If it is fully associative and large; ordered.pages NULL: it is not. */
	struct tlb_ordered ordered;
	/* Index in `lists` of its page size; TLB_BASE_SIZED: of base pages. */
	uint32_t lists;
	/* Of each entry: the one that had its page in the level with the lists. */
	uint32_t *head;
};

#define TLB_BASE_SIZED UINT32_MAX

/*
 * The filter's slots with pages of one larger page, which are a circular list.
 * The first level of that page size has the heads, one for each entry.
 */
struct tlb_slot_list {
	uint32_t next, previous;
};

struct tlb_slot_lists {
	uint32_t owner;				/* index of that level */
	struct tlb_slot_list *link;		/* slots, then heads */
};

struct tlb_others {
	uint32_t count, list_count;
	struct tlb_other other[TLB_MOST_VIEWS];
	struct tlb_slot_lists lists[TLB_MOST_VIEWS];
	/* Of each slot of the filter: where each level holds its page. */
	uint32_t *entries;
	/* The same of the reference in hand. */
	uint32_t found[TLB_MOST_VIEWS];
	/*
	 * Can the page of 1 << shift bytes that holds the address be one, and
	 * not several smaller ones?  NULL: all can.
	 */
	bool (*backed)(uint64_t address, uint32_t shift);
};

/* Start with no levels. */
void tlb_others_start(struct tlb_others *others);

/*
 * Have a level of this geometry (entries > 0) and page size, at least that of
 * base pages; returns its number, which is that of one just like it if there
 * is one.  At most TLB_MOST_VIEWS.
 */
uint32_t tlb_others_add(struct tlb_others *others, struct tlb_geometry geometry,
			uint32_t shift, bool mapped, uint32_t base_shift);

/* When all are there: the bytes that tlb_others_init() needs. */
size_t tlb_others_bytes(const struct tlb_others *others);

/* Empty them, in the caller's memory, which is aligned for uint64_t. */
void tlb_others_init(struct tlb_others *others, void *memory);

/* As tlb_first_access(), which calls it: a bit for each level that missed. */
uint32_t tlb_others_access(struct tlb_first *first, uint64_t address,
			   uint64_t time);

/* The page of the last access is put into this slot; a slot's is taken out. */
void tlb_others_put(struct tlb_first *first, uint32_t slot);
void tlb_others_drop(struct tlb_first *first, uint32_t slot);

/* References in a batch. */
#define TLB_BATCH 256u

/* A reference that waited; its side is in the low bits of the address. */
struct tlb_pending {
	uint64_t address, time, where;
};

/*
 * So many references in a row, while the filter is suspended: the bits of
 * those that missed, from TLB_OTHERS_SHIFT on, are added to missed[], one word
 * for each reference.
 */
void tlb_others_batch(struct tlb_others *others,
		      const struct tlb_pending *pending, uint32_t count,
		      uint32_t *missed);

#endif
