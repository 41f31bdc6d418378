/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "model.h"

size_t tlb_model_slots(const struct tlb_config *config)
{
	size_t slots = 0;

	for (int size = 0; size < TLB_SIZES; size++)
		slots += (size_t)config->l1d[size].entries +
			 config->l1i[size].entries +
			 config->stlb[size].entries;
	return slots;
}

void tlb_model_init(struct tlb_model *model, const struct tlb_config *config,
		    uint64_t *slots)
{
	model->config = config;
	for (int size = 0; size < TLB_SIZES; size++) {
		struct tlb_machine *machine = &model->machine[size];

		tlb_level_init(&machine->l1d, config->l1d[size], slots);
		slots += config->l1d[size].entries;
		tlb_level_init(&machine->l1i, config->l1i[size], slots);
		slots += config->l1i[size].entries;
		tlb_level_init(&machine->stlb, config->stlb[size], slots);
		slots += config->stlb[size].entries;
	}
	tlb_model_reset(model);
}

void tlb_model_reset(struct tlb_model *model)
{
	for (int size = 0; size < TLB_SIZES; size++) {
		struct tlb_machine *machine = &model->machine[size];

		tlb_level_flush(&machine->l1d);
		tlb_level_flush(&machine->l1i);
		tlb_level_flush(&machine->stlb);
		for (int side = 0; side < TLB_SIDES; side++)
			machine->counts[side] = (struct tlb_counts){ 0, 0, 0 };
	}
}

void tlb_filter_clear(struct tlb_filter *filter)
{
	for (uint32_t slot = 0; slot < TLB_FILTER_SLOTS; slot++)
		filter->address[slot] = TLB_FILTER_EMPTY;
}

/* A reference that missed the first level: second level, else a walk. */
static inline bool miss(struct tlb_machine *machine, uint64_t page,
			enum tlb_side side)
{
	struct tlb_counts *counts = &machine->counts[side];

	counts->l1_misses++;
	if (tlb_level_access(&machine->stlb, page)) {
		counts->stlb_hits++;
		return false;
	}
	counts->stlb_misses++;
	return true;
}

/* Pages of this huge page are no longer the most recently used. */
static inline void drop_huge(struct tlb_filter *filter, uint64_t huge,
			     uint32_t shift)
{
	for (uint32_t slot = 0; slot < TLB_FILTER_SLOTS; slot++)
		if (filter->address[slot] >> shift == huge)
			filter->address[slot] = TLB_FILTER_EMPTY;
}

static inline void drop_page(struct tlb_filter *filter, uint64_t page,
			     uint32_t shift)
{
	uint64_t *slot = &filter->address[page % TLB_FILTER_SLOTS];

	if (*slot >> shift == page)
		*slot = TLB_FILTER_EMPTY;
}

static inline bool reference(struct tlb_model *model, struct tlb_filter *filter,
			     struct tlb_level *base_l1,
			     struct tlb_level *huge_l1, uint64_t address,
			     enum tlb_side side)
{
	const uint32_t *shift = model->config->page_shift;
	uint64_t page = address >> shift[TLB_BASE];
	uint64_t huge = address >> shift[TLB_HUGE];
	bool walked = false;
	uint64_t last;

	last = *tlb_level_set(base_l1, page);
	if (last != page) {
		if (filter)
			drop_page(filter, last, shift[TLB_BASE]);
		if (!tlb_level_access(base_l1, page))
			walked = miss(&model->machine[TLB_BASE], page, side);
	}
	last = *tlb_level_set(huge_l1, huge);
	if (last != huge) {
		if (filter)
			drop_huge(filter, last, shift[TLB_HUGE]);
		if (!tlb_level_access(huge_l1, huge))
			miss(&model->machine[TLB_HUGE], huge, side);
	}
	if (filter)
		filter->address[page % TLB_FILTER_SLOTS] =
			page << shift[TLB_BASE];
	return walked;
}

bool tlb_model_data(struct tlb_model *model, struct tlb_filter *filter,
		    uint64_t address, enum tlb_side side)
{
	return reference(model, filter, &model->machine[TLB_BASE].l1d,
			 &model->machine[TLB_HUGE].l1d, address, side);
}

bool tlb_model_fetch(struct tlb_model *model, struct tlb_filter *filter,
		     uint64_t address)
{
	return reference(model, filter, &model->machine[TLB_BASE].l1i,
			 &model->machine[TLB_HUGE].l1i, address, TLB_FETCH);
}
