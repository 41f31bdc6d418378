/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the program's code calls when a reference may change the model. */
#include "tlbsim.h"

static inline ULong address_of(Long offset, UChar base, const ULong *bases)
{
	return (ULong)offset + (base == REFERENCE_ABSOLUTE ? 0 : bases[base]);
}

/* In the filter, only the time of last use changes. */
static inline Bool filtered(ULong address, UShort size, ULong time)
{
	struct tlb_filter_slot *slot = &tlbsim_data_filter.slot[
		tlb_filter_index(&tlbsim.model->data, address)];
	ULong page_bytes = 1ULL << tlbsim.config.page_shift[TLB_BASE];

	if (!tlbsim.filter || address - slot->address > page_bytes - size)
		return False;
	slot->time = time;
	return True;
}

static inline void run_references(const struct run *run, const ULong *bases)
{
	ULong page_bytes = 1ULL << tlbsim.config.page_shift[TLB_BASE];
	ULong time = tlbsim_clock - run->remaining;
	struct tlb_model *model = tlbsim.model;
	struct tlb_filter_slot writes[RUN_BASES];

	for (UInt i = 0; i < run->count; i++) {
		const struct reference *reference = &run->references[i];
		enum tlb_side side = (enum tlb_side)reference->side;
		ULong address = address_of(reference->offset, reference->base,
					   bases);
		ULong room = page_bytes - (address & (page_bytes - 1));

		if (model->batching)
			tlb_model_batch(model, address, side, time + i);
		else if (!filtered(address, reference->size, time + i))
			tlb_model_data(model, address, side, time + i);
		else
			continue;
		if (reference->size > room)
			tlb_model_data(model, address + room, side, time + i);
	}
	if (!tlbsim.filter || model->batching)
		return;
	for (UInt i = 0; i < run->range_count; i++) {
		const struct range *range = &run->ranges[i];

		writes[i].address = address_of(range->low, range->base, bases);
		writes[i].time = time + range->last;
	}
	tlb_first_settle(&model->data, writes, run->range_count);
}

void tlbsim_run0(const struct run *run)
{
	run_references(run, NULL);
}

void tlbsim_run1(const struct run *run, ULong b0)
{
	run_references(run, &b0);
}

void tlbsim_run2(const struct run *run, ULong b0, ULong b1)
{
	const ULong bases[] = { b0, b1 };

	run_references(run, bases);
}

void tlbsim_run3(const struct run *run, ULong b0, ULong b1, ULong b2)
{
	const ULong bases[] = { b0, b1, b2 };

	run_references(run, bases);
}

void tlbsim_run4(const struct run *run, ULong b0, ULong b1, ULong b2, ULong b3)
{
	const ULong bases[] = { b0, b1, b2, b3 };

	run_references(run, bases);
}

void tlbsim_fetch(ULong address, ULong time)
{
	struct tlb_filter_slot *slot = &tlbsim_code_filter.slot[
		tlb_filter_index(&tlbsim.model->code, address)];
	const struct tlb_filter_slot write = { address, time };

	if (tlbsim.filter && address - slot->address <
				     1ULL << tlbsim.config.page_shift[TLB_BASE]) {
		slot->time = time;
		return;
	}
	tlb_model_fetch(tlbsim.model, address, time);
	if (tlbsim.filter)
		tlb_first_settle(&tlbsim.model->code, &write, 1);
}
