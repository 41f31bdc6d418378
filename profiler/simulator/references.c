/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the program's code calls when a reference may change the model. */
#include "tlbsim.h"

static inline struct tlb_filter *filter_or_none(struct tlb_filter *filter)
{
	return tlbsim.filter ? filter : NULL;
}

static inline void page_reference(ULong address, enum tlb_side side)
{
	/* A page's first touch finds no entry anywhere: only walks can be it. */
	if (tlb_model_data(tlbsim.model, filter_or_none(&tlbsim_data_filter),
			   address, side))
		touched_note(&tlbsim.touched, address);
}

static inline void run_references(const struct run *run, const ULong *bases)
{
	UInt shift = tlbsim.config.page_shift[TLB_BASE];
	ULong page_bytes = 1ULL << shift;

	for (UInt i = 0; i < run->count; i++) {
		const struct reference *reference = &run->references[i];
		enum tlb_side side = (enum tlb_side)reference->side;
		ULong address = (ULong)reference->offset, room;
		ULong skippable;

		if (reference->base != REFERENCE_ABSOLUTE)
			address += bases[reference->base];
		/* The rest of a run mostly lies in pages just used. */
		skippable = tlbsim_data_filter.address[(address >> shift) %
						       TLB_FILTER_SLOTS];
		if (tlbsim.filter &&
		    address - skippable <= page_bytes - reference->size)
			continue;
		page_reference(address, side);
		room = page_bytes - (address & (page_bytes - 1));
		if (reference->size > room)
			page_reference(address + room, side);
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

void tlbsim_fetch(ULong address)
{
	if (tlb_model_fetch(tlbsim.model, filter_or_none(&tlbsim_code_filter),
			    address))
		touched_note(&tlbsim.touched, address);
}
