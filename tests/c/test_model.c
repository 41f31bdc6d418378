/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The TLB model against known answers, and against a model that is too simple to be wrong. */
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

TEST(cold_pages_walk_once_each)
{
	struct rig *rig = make_rig(&server, NULL, 0, true);

	for (int round = 0; round < 3; round++)
		for (uint64_t page = 0; page < 23; page++)
			reference(rig, 0x40000000 + (page << 12), TLB_LOAD);
	CHECK_EQUAL(counts(rig, TLB_BASE, TLB_LOAD)->stlb_misses, 23);
	CHECK_EQUAL(counts(rig, TLB_BASE, TLB_LOAD)->l1_misses, 23);
	CHECK_EQUAL(counts(rig, TLB_HUGE, TLB_LOAD)->stlb_misses, 1);
	drop_rig(rig);
}

TEST(a_cycle_beyond_the_entries_always_misses)
{
	struct rig *rig = make_rig(&server, NULL, 0, true);
	const uint64_t pages = 2048 + 128;

	for (int round = 0; round < 5; round++)
		for (uint64_t page = 0; page < pages; page++)
			reference(rig, page << 12, TLB_STORE);
	CHECK_EQUAL(counts(rig, TLB_BASE, TLB_STORE)->stlb_misses, 5 * pages);
	CHECK_EQUAL(counts(rig, TLB_BASE, TLB_LOAD)->l1_misses, 0);
	drop_rig(rig);
}

TEST(a_cycle_within_the_second_level_only_misses_the_first)
{
	struct rig *rig = make_rig(&server, NULL, 0, true);

	for (int round = 0; round < 5; round++)
		for (uint64_t page = 0; page < 1024; page++)
			reference(rig, page << 12, TLB_LOAD);
	CHECK_EQUAL(counts(rig, TLB_BASE, TLB_LOAD)->stlb_misses, 1024);
	CHECK_EQUAL(counts(rig, TLB_BASE, TLB_LOAD)->stlb_hits, 4 * 1024);
	drop_rig(rig);
}

TEST(without_a_second_level_every_miss_walks)
{
	struct tlb_config config = server;
	struct rig *rig;

	config.stlb[TLB_HUGE] = (struct tlb_geometry){ 0, 0 };
	rig = make_rig(&config, NULL, 0, true);
	for (int round = 0; round < 3; round++)
		for (uint64_t page = 0; page < 40; page++)
			reference(rig, page << 21, TLB_LOAD);
	CHECK_EQUAL(counts(rig, TLB_HUGE, TLB_LOAD)->stlb_misses, 120);
	CHECK_EQUAL(counts(rig, TLB_HUGE, TLB_LOAD)->stlb_hits, 0);
	drop_rig(rig);
}

TEST(code_and_data_share_the_second_level)
{
	struct rig *rig = make_rig(&server, NULL, 0, true);

	for (uint64_t page = 0; page < 500; page++)
		reference(rig, page << 12, TLB_FETCH);
	for (uint64_t page = 0; page < 500; page++)
		reference(rig, page << 12, TLB_LOAD);
	CHECK_EQUAL(counts(rig, TLB_BASE, TLB_FETCH)->stlb_misses, 500);
	CHECK_EQUAL(counts(rig, TLB_BASE, TLB_LOAD)->stlb_hits, 500);
	drop_rig(rig);
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

/* Some pages often, some seldom; phases of frequent and of rare misses. */
static uint64_t mixed_address(unsigned i)
{
	uint64_t r = random_number();

	if (i / 5000 % 3 == 1)
		return (r >> 8 & 0xffffff) << 12;
	switch (r & 7) {
	case 0:
		return (r >> 8 & 0xfff) << 12;
	case 1:
		return (r >> 8 & 0x1f) << 21;
	case 2:
	case 3:
		return 0x7f0000000000 + (r >> 8 & 0x7fff);
	default:
		return 0x10000000 + (r >> 8 & 0x3ffff);
	}
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
