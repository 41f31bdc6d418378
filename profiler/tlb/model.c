/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "model.h"

size_t tlb_model_bytes(const struct tlb_config *config)
{
	size_t bytes = tlb_first_bytes(config->l1d[TLB_BASE], config->l1d[TLB_HUGE]) +
		       tlb_first_bytes(config->l1i[TLB_BASE], config->l1i[TLB_HUGE]);

	for (int size = 0; size < TLB_SIZES; size++)
		bytes += config->stlb[size].entries * sizeof(uint64_t);
	return bytes;
}

static void *init_first(struct tlb_first *first, const struct tlb_config *config,
			const struct tlb_geometry geometry[TLB_SIZES],
			void *memory, struct tlb_filter *filter)
{
	first->slots.base_shift = config->page_shift[TLB_BASE];
	first->huge_shift = config->page_shift[TLB_HUGE];
	tlb_first_init(first, geometry[TLB_BASE], geometry[TLB_HUGE], memory,
		       filter);
	return (char *)memory +
	       tlb_first_bytes(geometry[TLB_BASE], geometry[TLB_HUGE]);
}

void tlb_model_init(struct tlb_model *model, const struct tlb_config *config,
		    void *memory, struct tlb_filter *data_filter,
		    struct tlb_filter *code_filter)
{
	uint64_t *pages;

	model->walked = NULL;
	model->missed = NULL;
	model->views = NULL;
	model->where = 0;
	model->when = 0;
	model->batching = false;
	model->held = false;
	model->pending_count = 0;
	model->misses = 0;
	model->window_start = 0;
	memory = init_first(&model->data, config, config->l1d, memory,
			    data_filter);
	pages = init_first(&model->code, config, config->l1i, memory,
			   code_filter);
	for (int size = 0; size < TLB_SIZES; size++) {
		tlb_level_init(&model->stlb[size], config->stlb[size], pages);
		if (config->stlb_folded)
			tlb_level_fold(&model->stlb[size]);
		pages += config->stlb[size].entries;
		for (int side = 0; side < TLB_SIDES; side++)
			model->counts[size][side] =
				(struct tlb_counts){ 0 };
	}
}

void tlb_model_watch(struct tlb_model *model, struct tlb_views *views)
{
	model->views = views;
	tlb_first_watch(&model->data, &views->data);
	tlb_first_watch(&model->code, &views->code);
}

/* A reference that missed the first level: second level, else a walk. */
static inline bool walks(struct tlb_model *model, enum tlb_size size,
			 uint32_t shift, uint64_t address, enum tlb_side side)
{
	struct tlb_counts *counts = &model->counts[size][side];
	const uint64_t page = address >> shift;
	const uint64_t replaced = tlb_level_exchange(&model->stlb[size], page);
	const bool walk = replaced != page;

	counts->l1_misses++;
	counts->unknown += replaced == TLB_NO_PAGE;
	if (walk)
		counts->stlb_misses++;
	else
		counts->stlb_hits++;
	if (model->missed)
		model->missed(size, address, side, walk);
	if (model->views && size == TLB_BASE)
		tlb_views_base_missed(model->views, address, side, walk);
	return walk;
}

/* Not yet for the views. */
static unsigned access(struct tlb_model *model, struct tlb_first *first,
		       uint64_t address, enum tlb_side side, uint64_t time)
{
	unsigned missed = tlb_first_access(first, address, time);

	model->when = time;
	if (missed & TLB_HUGE_MISS)
		walks(model, TLB_HUGE, first->huge_shift, address, side);
	if (missed & TLB_BASE_MISS &&
	    walks(model, TLB_BASE, first->slots.base_shift, address, side) &&
	    model->walked)
		model->walked(address);
	return missed;
}

/* Misses are frequent from this rate on: 1 in 4 references. */
#define FREQUENT 4u

void tlb_model_work_off(struct tlb_model *model)
{
	uint32_t count = model->pending_count, misses = 0;
	uint32_t missed[TLB_BATCH];

	model->pending_count = 0;
	for (uint32_t i = 0; i < count; i++) {
		uint64_t address = model->pending[i].address;

		model->where = model->pending[i].where;
		missed[i] = access(model, &model->data, address & ~UINT64_C(3),
				   (enum tlb_side)(address & 3),
				   model->pending[i].time);
	}
	if (model->data.views)
		tlb_view_levels_batch(model->data.views, model->pending, count,
				      missed);
	for (uint32_t i = 0; i < count; i++) {
		misses += missed[i] != 0;
		if (model->views && missed[i])
			tlb_views_missed(model->views, missed[i],
					 model->pending[i].address & ~UINT64_C(3),
					 (enum tlb_side)(model->pending[i].address & 3));
	}
	if (count == TLB_BATCH && misses < TLB_BATCH / FREQUENT) {
		model->batching = false;
		tlb_first_resume(&model->data);
	}
}

void tlb_model_flush(struct tlb_model *model)
{
	tlb_model_work_off(model);
	if (model->views)
		tlb_views_flush(model->views);
}

/* After TLB_BATCH misses: were they a large share of the references? */
static void decide(struct tlb_model *model, uint64_t time)
{
	uint64_t references = time - model->window_start;

	model->misses = 0;
	model->window_start = time;
	if (model->data.slots.filter && !model->held &&
	    references <= FREQUENT * TLB_BATCH) {
		model->batching = true;
		tlb_first_suspend(&model->data);
	}
}

void tlb_model_hold(struct tlb_model *model, bool held)
{
	tlb_model_flush(model);
	model->held = held;
	if (held && model->batching) {
		model->batching = false;
		tlb_first_resume(&model->data);
	}
}

void tlb_model_data(struct tlb_model *model, uint64_t address,
		    enum tlb_side side, uint64_t time)
{
	unsigned missed;

	if (model->batching) {
		tlb_model_batch(model, address, side, time);
		return;
	}
	missed = access(model, &model->data, address, side, time);
	if (!missed)
		return;
	if (model->views)
		tlb_views_missed(model->views, missed, address, side);
	if (++model->misses == TLB_BATCH)
		decide(model, time);
}

void tlb_model_fetch(struct tlb_model *model, uint64_t address, uint64_t time)
{
	unsigned missed;

	/* Both sides share the second level. */
	if (model->pending_count)
		tlb_model_work_off(model);
	model->where = address;
	missed = access(model, &model->code, address, TLB_FETCH, time);
	if (model->views && missed)
		tlb_views_missed(model->views, missed, address, TLB_FETCH);
}
