/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "references.h"
#include "current.h"
#include "numa.h"
#include "options.h"
#include "reuse_samples.h"

/* One reference, or the part of one that lies in one page; made by the instruction at `where`. */
typedef void (*take_one)(struct tlb_model *model, ULong address,
			 enum tlb_side side, ULong time, ULong where);

static inline void take_always(struct tlb_model *model, ULong address,
			       enum tlb_side side, ULong time, ULong where)
{
	model->where = where;
	tlb_model_data(model, address, side, time);
}

static inline void take_batched(struct tlb_model *model, ULong address,
				enum tlb_side side, ULong time, ULong where)
{
	model->where = where;
	/* A full batch may show that misses are no longer frequent. */
	if (model->batching)
		tlb_model_batch(model, address, side, time);
	else
		tlb_model_data(model, address, side, time);
}

/* Of a page in the filter, only the time of last use changes. */
static inline void take_filtered(struct tlb_model *model, ULong address,
				 enum tlb_side side, ULong time, ULong where)
{
	struct tlb_filter_slot *slot = &tlbsim_data_filter.slot[
		tlb_filter_index(&model->data.slots, address)];

	if (address >> model->data.slots.base_shift ==
	    slot->address >> model->data.slots.base_shift)
		slot->time = time;
	else
		take_always(model, address, side, time, where);
}

static inline __attribute__((always_inline)) void
take_all(const struct run *run, const ULong *bases, take_one take)
{
	struct tlb_model *model = current.model;
	ULong page_bytes = 1ULL << model->data.slots.base_shift;
	ULong time = tlbsim_clock - run->remaining;
	const struct reference *reference = run->references;
	const struct reference *end = reference + run->count;

	for (; reference < end; reference++, time++) {
		enum tlb_side side = (enum tlb_side)reference->side;
		ULong address = run_address(reference->offset,
					    reference->base, bases);
		ULong where = run->instruction + (ULong)(Long)reference->instruction;
		ULong room = page_bytes - (address & (page_bytes - 1));

		take(model, address, side, time, where);
		if (reuse_samples_has(address))
			reuse_samples_saw(address, side, time);
		if (reference->size > room)
			take(model, address + room, side, time, where);
	}
}

/* Make sure that the code writes the right times next. */
static void settle(const struct run *run, const ULong *bases)
{
	ULong time = tlbsim_clock - run->remaining;
	struct tlb_filter_slot writes[RUN_BASES];

	for (UInt i = 0; i < run->range_count; i++) {
		const struct range *range = &run->ranges[i];

		writes[i].address = run_address(range->low, range->base, bases);
		writes[i].time = time + range->last;
	}
	tlb_first_settle(&current.model->data, writes, run->range_count);
}

static inline void run_references(const struct run *run, const ULong *bases)
{
	current.run = run;
	if (tlbsim_numa_phase)
		tlbsim_numa_run(run, bases);
	if (!options.filter) {
		take_all(run, bases, take_always);
	} else if (current.model->batching) {
		take_all(run, bases, take_batched);
		/* Otherwise the filter is empty, and stays so. */
		if (!current.model->batching)
			settle(run, bases);
	} else {
		take_all(run, bases, take_filtered);
		settle(run, bases);
	}
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
		tlb_filter_index(&current.model->code.slots, address)];
	const struct tlb_filter_slot write = { address, time };

	if (options.filter && address - slot->address <
				     1ULL << options.tlb.page_shift[TLB_BASE]) {
		slot->time = time;
		return;
	}
	current.run = NULL;
	tlb_model_fetch(current.model, address, time);
	if (options.filter)
		tlb_first_settle(&current.model->code, &write, 1);
}
