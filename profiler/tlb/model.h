/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What do one thread's references do to the TLBs if all memory is on base pages, and if it is
 * all on huge pages?  Two machines see every reference: each has a first-level dTLB and iTLB
 * and a second level shared by both.  More machines can watch: see views.h.
 */
#ifndef TLBCOST_MODEL_H
#define TLBCOST_MODEL_H

#include "first.h"
#include "tlb_config.h"
#include "views.h"

/*
 * A program that misses at every other reference spends its time waiting for memory, with many
 * misses in flight; our work between two references would serialize them.  While misses are
 * that frequent, the filter is empty and references are queued here, to be processed TLB_BATCH
 * at a time.  Batch or not, the model sees the same references in the same order.
 */
struct tlb_model {
	struct tlb_first data, code;
	struct tlb_level stlb[TLB_SIZES];
	struct tlb_counts counts[TLB_SIZES][TLB_SIDES];
	/* Called for each page table walk of the base machine; may be NULL. */
	void (*walked)(uint64_t address);
	/* Called for each first-level miss, and if the second level missed too; may be NULL. */
	void (*missed)(enum tlb_size size, uint64_t address, enum tlb_side side,
		       bool walk);
	/* Further machines that see every reference; NULL: there are none. */
	struct tlb_views *views;
	/* The caller's, for the current reference: `missed` finds it here. */
	uint64_t where;
	uint64_t when;			/* the time of that reference */
	bool batching, held;
	uint32_t pending_count;
	struct tlb_pending pending[TLB_BATCH];
	/* Since the last decision, which comes after TLB_BATCH misses: */
	uint32_t misses;
	uint64_t window_start;		/* its time */
};

/* Bytes that tlb_model_init() needs. */
size_t tlb_model_bytes(const struct tlb_config *config);

/*
 * Make a model with empty TLBs and zero counts in the caller's memory, which
 * is aligned for uint64_t.  The filters may be NULL: see filter.h.
 */
void tlb_model_init(struct tlb_model *model, const struct tlb_config *config,
		    void *memory, struct tlb_filter *data_filter,
		    struct tlb_filter *code_filter);

/* From now on these views, which are empty, see every reference as well. */
void tlb_model_watch(struct tlb_model *model, struct tlb_views *views);

/* Process the queued references. */
void tlb_model_work_off(struct tlb_model *model);

/* The same, and the misses queued for the views; then all counts are up to date. */
void tlb_model_flush(struct tlb_model *model);

/*
 * While it is held, no reference is queued: every call has taken effect when it returns, so
 * `missed` is called in time.
 */
void tlb_model_hold(struct tlb_model *model, bool held);

/*
 * One reference to the base page that holds `address` (the caller splits references that cross
 * a page), at a time later than any before.
 */
void tlb_model_data(struct tlb_model *model, uint64_t address,
		    enum tlb_side side, uint64_t time);
void tlb_model_fetch(struct tlb_model *model, uint64_t address, uint64_t time);

/*
 * tlb_model_data() while model->batching.  Inline, because it must cost as little as possible.
 */
static inline void tlb_model_batch(struct tlb_model *model, uint64_t address,
				   enum tlb_side side, uint64_t time)
{
	model->pending[model->pending_count++] = (struct tlb_pending){
		(address & ~UINT64_C(3)) | (uint64_t)side, time, model->where
	};
	if (model->pending_count == TLB_BATCH)
		tlb_model_work_off(model);
}

#endif
