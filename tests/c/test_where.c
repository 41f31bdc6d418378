/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is each miss reported with the reference that made it, also after that has waited? */
#include "check.h"
#include "model.h"

#include <stdlib.h>

static const struct tlb_config small = {
	.page_shift = { 12, 21 },
	.l1d = { { 12, 3 }, { 4, 4 } },
	.l1i = { { 8, 4 }, { 4, 4 } },
	.stlb = { { 96, 6 }, { 96, 6 } },
};

static struct tlb_model model;
static struct tlb_filter data_filter, code_filter;
static uint64_t reported[TLB_SIZES][TLB_SIDES], wrong;

static uint64_t where_of(uint64_t address)
{
	return (address >> 12) * 3 + 1;
}

static void missed(enum tlb_size size, uint64_t address, enum tlb_side side,
		   bool walk)
{
	(void)walk;
	reported[size][side]++;
	if (model.where != (side == TLB_FETCH ? address : where_of(address)))
		wrong++;
}

TEST(each_miss_has_its_reference)
{
	void *memory = malloc(tlb_model_bytes(&small));
	uint64_t batched = 0;

	tlb_model_init(&model, &small, memory, &data_filter, &code_filter);
	model.missed = missed;
	srand(1);
	for (uint64_t time = 1; time < 100000; time++) {
		uint64_t address = (uint64_t)rand() % 4000 << 12;

		if (time % 1000 == 0) {
			tlb_model_fetch(&model, address, time);
			continue;
		}
		model.where = where_of(address);
		tlb_model_data(&model, address, time % 3 ? TLB_LOAD : TLB_STORE,
			       time);
		batched += model.batching;
	}
	tlb_model_flush(&model);
	CHECK_EQUAL(wrong, 0);
	/* Most references waited. */
	CHECK(batched > 50000);
	for (int size = 0; size < TLB_SIZES; size++)
		for (int side = 0; side < TLB_SIDES; side++)
			CHECK_EQUAL(reported[size][side], model.counts[size][side].l1_misses);
	free(memory);
}

CHECK_MAIN
