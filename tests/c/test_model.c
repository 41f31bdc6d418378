/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The TLB model against one that is too simple to be wrong; known answers: tests/bats/known.bats. */
#include "tlb_rig.h"

static const struct tlb_config server = {
	.page_shift = { 12, 21 },
	.l1d = { { 96, 6 }, { 32, 4 } },
	.l1i = { { 256, 8 }, { 32, 8 } },
	.stlb = { { 2048, 16 }, { 2048, 16 } },
};

static const struct tlb_counts *counts(struct rig *rig, enum tlb_size size,
				       enum tlb_side side)
{
	tlb_model_flush(&rig->model);
	return &rig->model.counts[size][side];
}

static uint64_t walks_seen;

static void count_walk(uint64_t address)
{
	(void)address;
	walks_seen++;
}

TEST(each_walk_is_reported)
{
	struct rig *rig = make_rig(&server, NULL, 0, true);

	walks_seen = 0;
	rig->model.walked = count_walk;
	/* Misses this frequent are worked off in batches. */
	for (int i = 0; i < 100000; i++)
		reference(rig, random_number() & 0x3ffff000, TLB_STORE);
	CHECK_EQUAL(counts(rig, TLB_BASE, TLB_STORE)->stlb_misses, walks_seen);
	CHECK(walks_seen > 90000);
	drop_rig(rig);
}

/* One page in four of the largest base pages. */
static bool in_four(uint64_t address)
{
	return (address >> 16) % 4 == 0;
}

static bool filter_has(const struct tlb_filter *filter, bool (*which)(uint64_t address))
{
	bool has = false;

	for (unsigned i = 0; i < TLB_FILTER_SLOTS; i++)
		has |= filter->slot[i].address != TLB_FILTER_EMPTY &&
		       which(filter->slot[i].address);
	return has;
}

/* Returns whether the filter ever had such a page. */
static bool compare_with_naive(const struct tlb_config *config, bool filter,
			       bool (*withheld)(uint64_t address))
{
	struct naive_machine *naive = calloc(TLB_SIZES, sizeof(*naive));
	struct rig *rig = make_rig(config, NULL, 0, filter);

	bool had = false;

	rig->model.data.withheld = withheld;
	for (unsigned i = 0; i < 60000; i++) {
		enum tlb_side side = mixed_side();
		uint64_t address = mixed_address(i);

		reference(rig, address, side);
		if (filter && i % 512 == 0)
			had |= filter_has(&rig->data, in_four);
		for (int size = 0; size < TLB_SIZES; size++) {
			const struct tlb_view_config alone = {
				.page_shift = config->page_shift[size],
				.l1d = config->l1d[size], .l1i = config->l1i[size],
				.stlb = config->stlb[size], .folded = config->stlb_folded,
			};

			naive_reference(&naive[size], &alone, address, side);
		}
	}
	tlb_model_flush(&rig->model);
	for (int size = 0; size < TLB_SIZES; size++)
		check_counts(rig->model.counts[size], naive[size].counts);
	CHECK(!had || !withheld);
	drop_rig(rig);
	free(naive);
	return had;
}

TEST(it_agrees_with_the_naive_model)
{
	const struct tlb_config configs[] = {
		{ { 12, 21 }, { { 96, 6 }, { 32, 4 } }, { { 64, 8 }, { 8, 8 } },
		  { { 512, 16 }, { 256, 16 } }, false },
		/* fully associative, and sets that are no power of two */
		{ { 12, 21 }, { { 72, 72 }, { 72, 72 } }, { { 64, 64 }, { 64, 64 } },
		  { { 36 * 24, 24 }, { 36 * 24, 24 } }, false },
		/* direct-mapped, one entry, one set */
		{ { 12, 21 }, { { 16, 1 }, { 1, 1 } }, { { 2, 2 }, { 1, 1 } },
		  { { 64, 1 }, { 4, 4 } }, false },
		/* 64 KiB base pages with 512 MiB huge pages */
		{ { 16, 29 }, { { 48, 48 }, { 48, 48 } }, { { 48, 48 }, { 48, 48 } },
		  { { 256, 4 }, { 256, 4 } }, false },
		/* no second level */
		{ { 12, 21 }, { { 96, 6 }, { 32, 4 } }, { { 64, 8 }, { 8, 8 } },
		  { { 512, 16 }, { 0, 0 } }, false },
		/* folded */
		{ { 12, 21 }, { { 96, 6 }, { 32, 4 } }, { { 64, 8 }, { 8, 8 } },
		  { { 1024, 16 }, { 64, 4 } }, true },
		{ { 12, 21 }, { { 16, 1 }, { 1, 1 } }, { { 2, 2 }, { 1, 1 } },
		  { { 64, 1 }, { 4, 4 } }, true },
	};

	bool had = false;

	for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
		had |= compare_with_naive(&configs[i], true, NULL);
		compare_with_naive(&configs[i], true, in_four);
		compare_with_naive(&configs[i], false, NULL);
	}
	CHECK(had);
}

/* An engine's blind writes must not change the order of last use. */
TEST(settled_writes_keep_the_order)
{
	struct rig *rig = make_rig(&server, NULL, 0, true);
	struct tlb_first *first = &rig->model.data;
	/* Two pages of one filter slot, and so of one set. */
	uint64_t a = 0x100000000, b = a + ((uint64_t)TLB_FILTER_SLOTS << 12);
	struct tlb_filter_slot writes[] = { { a, 10 } };
	struct tlb_filter_slot *slot;

	tlb_model_data(&rig->model, a, TLB_LOAD, 10);
	tlb_model_data(&rig->model, b, TLB_LOAD, 11);
	slot = &first->slots.filter->slot[tlb_filter_index(&first->slots, a)];
	CHECK(slot->address == b);
	tlb_first_settle(first, writes, 1);
	CHECK(slot->address == TLB_FILTER_EMPTY);
	/* A write of a page's own time needs no care. */
	tlb_model_data(&rig->model, a, TLB_LOAD, 12);
	writes[0].time = 12;
	tlb_first_settle(first, writes, 1);
	CHECK(slot->address == a);
	CHECK_EQUAL(slot->time, 12);
	drop_rig(rig);
}

TEST(geometries_are_checked)
{
	CHECK(tlb_geometry_valid((struct tlb_geometry){ 96, 6 }));
	CHECK(tlb_geometry_valid((struct tlb_geometry){ 0, 0 }));
	CHECK(!tlb_geometry_valid((struct tlb_geometry){ 96, 0 }));
	CHECK(!tlb_geometry_valid((struct tlb_geometry){ 96, 5 }));
}

CHECK_MAIN
