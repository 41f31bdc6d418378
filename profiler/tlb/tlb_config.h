/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which TLBs does the machine at hand have, for base pages and for huge pages? */
#ifndef TLBCOST_TLB_CONFIG_H
#define TLBCOST_TLB_CONFIG_H

#include "level.h"

enum tlb_size { TLB_BASE, TLB_HUGE, TLB_SIZES };

/* What to model.  Index of each array: enum tlb_size. */
struct tlb_config {
	uint32_t page_shift[TLB_SIZES];		/* log2 of bytes; base < huge */
	struct tlb_geometry l1d[TLB_SIZES];	/* must exist */
	struct tlb_geometry l1i[TLB_SIZES];	/* must exist */
	struct tlb_geometry stlb[TLB_SIZES];	/* may have 0 entries */
	bool stlb_folded;			/* see struct tlb_level */
};

enum tlb_side { TLB_LOAD, TLB_STORE, TLB_FETCH, TLB_SIDES };

struct tlb_counts {
	uint64_t l1_misses;
	uint64_t stlb_hits;
	uint64_t stlb_misses;	/* l1_misses = stlb_hits + stlb_misses */
	/* Of stlb_misses: their set had an empty entry, so the page may have been there before. */
	uint64_t unknown;
};

#endif
