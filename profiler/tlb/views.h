/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What would the same references do to the TLBs of other machines, or of this one with other
 * page sizes?  Each view is such a machine with all of its memory on pages of one size.  Its
 * counts are those of a run with its TLBs alone.
 */
#ifndef TLBCOST_VIEWS_H
#define TLBCOST_VIEWS_H

#include "tlb_config.h"
#include "view_levels.h"

/* What one view is to model. */
struct tlb_view_config {
	uint32_t page_shift;		/* log2 of bytes; at least the base page's */
	struct tlb_geometry l1d, l1i;	/* must exist */
	struct tlb_geometry stlb;	/* may have 0 entries */
	/* Code has its own second level, which may have 0 entries. */
	bool split;
	struct tlb_geometry stlb_code;
	bool folded;			/* both: see struct tlb_level */
	/*
	 * Only what `backed` allows is on such pages (see view_levels.h).  The rest misses
	 * like the references of view number `rest`; TLB_REST_BASE: like those on base pages
	 * of the machine at hand.
	 */
	bool mapped;
	uint32_t rest;
};

#define TLB_REST_BASE UINT32_MAX

struct tlb_view {
	uint32_t page_shift;
	uint32_t data_bit, code_bit;	/* of its first levels, as tlb_first_access() has them */
	/* Number of the first identical view: only that one is modelled. */
	uint32_t like;
	bool split, mapped, followed;	/* followed: it is the rest of another */
	uint32_t rest;
	struct tlb_level stlb, stlb_code;
	struct tlb_counts counts[TLB_SIDES];
};

/*
 * First-level misses are queued until there are TLB_BATCH, so that one view after the other
 * looks them all up.
 */
struct tlb_waiting {
	uint64_t address;
	uint32_t missed;		/* which first levels: their bits */
	enum tlb_side side;
};

struct tlb_views {
	struct tlb_view_levels data, code;
	uint32_t count, waiting_count;
	bool base_followed;
	struct tlb_waiting waiting[TLB_BATCH];
	struct tlb_view view[TLB_MOST_VIEWS];
	/* Called at once for each first-level miss, by the number of its view; may be NULL. */
	void (*missed)(uint32_t view, uint64_t address, enum tlb_side side,
		       bool walk);
};

/* Bytes that tlb_views_init() needs for this many views, at most TLB_MOST_VIEWS. */
size_t tlb_views_bytes(const struct tlb_view_config *configs, uint32_t count,
		       const struct tlb_config *at_hand);

/*
 * Make views with empty TLBs and zero counts in the caller's memory, which is aligned for
 * uint64_t.  First levels identical to those of the machine at hand are not modelled again.
 */
void tlb_views_init(struct tlb_views *views,
		    const struct tlb_view_config *configs, uint32_t count,
		    const struct tlb_config *at_hand, void *memory);

/* A view's counts, when the model has been flushed. */
static inline const struct tlb_counts *
tlb_view_counts(const struct tlb_views *views, uint32_t view)
{
	return views->view[views->view[view].like].counts;
}

/* A reference missed the first level of the machine at hand on base pages. */
void tlb_views_base_missed(struct tlb_views *views, uint64_t address,
			   enum tlb_side side, bool walk);

/* Look up the queued misses. */
void tlb_views_flush(struct tlb_views *views);

/* A reference missed these first levels: a bit for each, as tlb_first_access() has them. */
static inline void tlb_views_missed(struct tlb_views *views, uint32_t missed,
				    uint64_t address, enum tlb_side side)
{
	views->waiting[views->waiting_count++] =
		(struct tlb_waiting){ address, missed, side };
	if (views->waiting_count == TLB_BATCH || views->missed)
		tlb_views_flush(views);
}

#endif
