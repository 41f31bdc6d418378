/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What do one thread's references do to the TLBs, if all memory were on base
 * pages, and if it were all on huge pages?  Two machines see every reference:
 * each has a first-level dTLB and iTLB and a second level shared by both.
 *
 * The filter lets an engine skip a reference without calling the model.  It
 * holds base pages that are the most recently used of their first-level set,
 * and whose huge page is that too: such a reference hits both first levels
 * and leaves every LRU order as it is, so skipping it changes nothing.
 */
#ifndef TLBCOST_MODEL_H
#define TLBCOST_MODEL_H

#include "level.h"

enum tlb_side { TLB_LOAD, TLB_STORE, TLB_FETCH, TLB_SIDES };

enum tlb_size { TLB_BASE, TLB_HUGE, TLB_SIZES };

/* What to model.  Index of each array: enum tlb_size. */
struct tlb_config {
	uint32_t page_shift[TLB_SIZES];		/* log2 of bytes; base < huge */
	struct tlb_geometry l1d[TLB_SIZES];	/* must exist */
	struct tlb_geometry l1i[TLB_SIZES];	/* must exist */
	struct tlb_geometry stlb[TLB_SIZES];	/* may have 0 entries */
};

struct tlb_counts {
	uint64_t l1_misses;
	uint64_t stlb_hits;
	uint64_t stlb_misses;	/* l1_misses = stlb_hits + stlb_misses */
};

struct tlb_machine {
	struct tlb_level l1d, l1i, stlb;
	struct tlb_counts counts[TLB_SIDES];
};

#define TLB_FILTER_SLOTS 16u

/*
 * Addresses of the first byte of pages that may be skipped.  The slot of a
 * page is its number modulo TLB_FILTER_SLOTS, counted in base pages.
 */
struct tlb_filter {
	uint64_t address[TLB_FILTER_SLOTS];
};

/* An empty slot: no user address is less than a page away from it. */
#define TLB_FILTER_EMPTY (UINT64_C(1) << 63)

struct tlb_model {
	const struct tlb_config *config;
	struct tlb_machine machine[TLB_SIZES];
};

/* Numbers of 64 bits that tlb_model_init() needs for the levels' slots. */
size_t tlb_model_slots(const struct tlb_config *config);

/*
 * Make a model with empty TLBs and zero counts.  config must outlive it;
 * slots holds tlb_model_slots() numbers.
 */
void tlb_model_init(struct tlb_model *model, const struct tlb_config *config,
		    uint64_t *slots);

/* Empty the TLBs and set the counts to zero. */
void tlb_model_reset(struct tlb_model *model);

void tlb_filter_clear(struct tlb_filter *filter);

/*
 * One load or store at `address` (the caller splits what crosses a page).
 * Updates the filter, if there is one.  Returns whether the base machine
 * walked the page table.
 */
bool tlb_model_data(struct tlb_model *model, struct tlb_filter *filter,
		    uint64_t address, enum tlb_side side);

/* One instruction fetch, with a filter of its own.  As tlb_model_data(). */
bool tlb_model_fetch(struct tlb_model *model, struct tlb_filter *filter,
		     uint64_t address);

#endif
