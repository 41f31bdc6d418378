/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The TLB model against known answers, and against a model that is too simple to be wrong. */
#include "check.h"
#include "model.h"

#include <stdlib.h>
#include <string.h>

static const struct tlb_config server = {
	.page_shift = { 12, 21 },
	.l1d = { { 96, 6 }, { 32, 4 } },
	.l1i = { { 256, 8 }, { 32, 8 } },
	.stlb = { { 2048, 16 }, { 2048, 16 } },
};

struct rig {
	struct tlb_model model;
	struct tlb_filter data, code;
	void *memory;
	uint64_t time;
};

static struct rig *make_rig(const struct tlb_config *config, bool filter)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	rig->memory = malloc(tlb_model_bytes(config));
	tlb_model_init(&rig->model, config, rig->memory,
		       filter ? &rig->data : NULL, filter ? &rig->code : NULL);
	return rig;
}

static void drop_rig(struct rig *rig)
{
	free(rig->memory);
	free(rig);
}

/* A reference as an engine makes it: through the filter if it can. */
static void reference(struct rig *rig, uint64_t address, enum tlb_side side)
{
	struct tlb_first *first = side == TLB_FETCH ? &rig->model.code :
						      &rig->model.data;
	uint64_t time = ++rig->time;
	struct tlb_filter_slot *slot;

	if (first->slots.filter) {
		slot = &first->slots.filter->slot[tlb_filter_index(&first->slots, address)];
		if (slot->address == address >> first->slots.base_shift << first->slots.base_shift) {
			slot->time = time;
			return;
		}
	}
	if (side == TLB_FETCH)
		tlb_model_fetch(&rig->model, address, time);
	else
		tlb_model_data(&rig->model, address, side, time);
}

static uint64_t random_number(void)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static const struct tlb_counts *counts(struct rig *rig, enum tlb_size size,
				       enum tlb_side side)
{
	tlb_model_flush(&rig->model);
	return &rig->model.counts[size][side];
}

static void cold_pages_walk_once_each(void)
{
	struct rig *rig = make_rig(&server, true);

	for (int round = 0; round < 3; round++)
		for (uint64_t page = 0; page < 23; page++)
			reference(rig, 0x40000000 + (page << 12), TLB_LOAD);
	CHECK_EQUAL(counts(rig, TLB_BASE, TLB_LOAD)->stlb_misses, 23);
	CHECK_EQUAL(counts(rig, TLB_BASE, TLB_LOAD)->l1_misses, 23);
	CHECK_EQUAL(counts(rig, TLB_HUGE, TLB_LOAD)->stlb_misses, 1);
	drop_rig(rig);
}

static void a_cycle_beyond_the_entries_always_misses(void)
{
	struct rig *rig = make_rig(&server, true);
	const uint64_t pages = 2048 + 128;

	for (int round = 0; round < 5; round++)
		for (uint64_t page = 0; page < pages; page++)
			reference(rig, page << 12, TLB_STORE);
	CHECK_EQUAL(counts(rig, TLB_BASE, TLB_STORE)->stlb_misses, 5 * pages);
	CHECK_EQUAL(counts(rig, TLB_BASE, TLB_LOAD)->l1_misses, 0);
	drop_rig(rig);
}

static void a_cycle_within_the_second_level_only_misses_the_first(void)
{
	struct rig *rig = make_rig(&server, true);

	for (int round = 0; round < 5; round++)
		for (uint64_t page = 0; page < 1024; page++)
			reference(rig, page << 12, TLB_LOAD);
	CHECK_EQUAL(counts(rig, TLB_BASE, TLB_LOAD)->stlb_misses, 1024);
	CHECK_EQUAL(counts(rig, TLB_BASE, TLB_LOAD)->stlb_hits, 4 * 1024);
	drop_rig(rig);
}

static void without_a_second_level_every_miss_walks(void)
{
	struct tlb_config config = server;
	struct rig *rig;

	config.stlb[TLB_HUGE] = (struct tlb_geometry){ 0, 0 };
	rig = make_rig(&config, true);
	for (int round = 0; round < 3; round++)
		for (uint64_t page = 0; page < 40; page++)
			reference(rig, page << 21, TLB_LOAD);
	CHECK_EQUAL(counts(rig, TLB_HUGE, TLB_LOAD)->stlb_misses, 120);
	CHECK_EQUAL(counts(rig, TLB_HUGE, TLB_LOAD)->stlb_hits, 0);
	drop_rig(rig);
}

static void code_and_data_share_the_second_level(void)
{
	struct rig *rig = make_rig(&server, true);

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

static void each_walk_is_told(void)
{
	struct rig *rig = make_rig(&server, true);

	walks_seen = 0;
	rig->model.walked = count_walk;
	/* Misses this frequent are worked off in batches. */
	for (int i = 0; i < 100000; i++)
		reference(rig, random_number() & 0x3ffff000, TLB_STORE);
	CHECK_EQUAL(counts(rig, TLB_BASE, TLB_STORE)->stlb_misses, walks_seen);
	CHECK(walks_seen > 90000);
	drop_rig(rig);
}

/* The simplest LRU set: the whole history, searched backwards. */
struct naive {
	uint64_t pages[64][96];		/* by set, most recently used first */
	unsigned held[64];
};

static bool naive_access(struct naive *level, struct tlb_geometry geometry,
			 uint64_t page)
{
	uint64_t set = page % (geometry.entries / geometry.ways);
	uint64_t *pages = level->pages[set];
	unsigned at = 0;
	bool hit;

	while (at < level->held[set] && pages[at] != page)
		at++;
	hit = at < level->held[set];
	if (!hit) {
		if (level->held[set] < geometry.ways)
			level->held[set]++;
		at = level->held[set] - 1;
	}
	memmove(pages + 1, pages, at * sizeof(*pages));
	pages[0] = page;
	return hit;
}

struct naive_machine {
	struct naive l1d, l1i, stlb;
	struct tlb_counts counts[TLB_SIDES];
};

static void naive_reference(struct naive_machine *machine,
			    const struct tlb_config *config, enum tlb_size size,
			    uint64_t address, enum tlb_side side)
{
	uint64_t page = address >> config->page_shift[size];
	bool hit = side == TLB_FETCH ?
			   naive_access(&machine->l1i, config->l1i[size], page) :
			   naive_access(&machine->l1d, config->l1d[size], page);

	if (hit)
		return;
	machine->counts[side].l1_misses++;
	/* To fold is to rename pages; a single set has nothing to choose. */
	if (config->stlb_folded && config->stlb[size].entries > config->stlb[size].ways)
		page ^= page / (config->stlb[size].entries / config->stlb[size].ways);
	if (naive_access(&machine->stlb, config->stlb[size], page))
		machine->counts[side].stlb_hits++;
	else
		machine->counts[side].stlb_misses++;
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

static void compare_with_naive(const struct tlb_config *config, bool filter)
{
	struct naive_machine *naive = calloc(TLB_SIZES, sizeof(*naive));
	struct rig *rig = make_rig(config, filter);

	for (unsigned i = 0; i < 60000; i++) {
		enum tlb_side side = (enum tlb_side)(random_number() >> 20) % 8;
		uint64_t address = mixed_address(i);

		side = (int)side == 7 ? TLB_FETCH : side & 1;
		reference(rig, address, side);
		for (int size = 0; size < TLB_SIZES; size++)
			naive_reference(&naive[size], config, size, address, side);
	}
	tlb_model_flush(&rig->model);
	for (int size = 0; size < TLB_SIZES; size++)
		for (int side = 0; side < TLB_SIDES; side++) {
			const struct tlb_counts *got =
				&rig->model.counts[size][side];
			const struct tlb_counts *want = &naive[size].counts[side];

			CHECK(want->l1_misses > 0);
			CHECK_EQUAL(got->l1_misses, want->l1_misses);
			CHECK_EQUAL(got->stlb_hits, want->stlb_hits);
			CHECK_EQUAL(got->stlb_misses, want->stlb_misses);
		}
	drop_rig(rig);
	free(naive);
}

static void it_agrees_with_the_naive_model(void)
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

	for (size_t i = 0; i < sizeof(configs) / sizeof(configs[0]); i++) {
		compare_with_naive(&configs[i], true);
		compare_with_naive(&configs[i], false);
	}
}

/* An engine's blind writes must not change the order of last use. */
static void settled_writes_keep_the_order(void)
{
	struct rig *rig = make_rig(&server, true);
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

static void geometries_are_checked(void)
{
	CHECK(tlb_geometry_valid((struct tlb_geometry){ 96, 6 }));
	CHECK(tlb_geometry_valid((struct tlb_geometry){ 0, 0 }));
	CHECK(!tlb_geometry_valid((struct tlb_geometry){ 96, 0 }));
	CHECK(!tlb_geometry_valid((struct tlb_geometry){ 96, 5 }));
}

static const struct check_test tests[] = {
	{ "cold pages walk once each", cold_pages_walk_once_each },
	{ "a cycle beyond the entries always misses",
	  a_cycle_beyond_the_entries_always_misses },
	{ "a cycle within the second level only misses the first",
	  a_cycle_within_the_second_level_only_misses_the_first },
	{ "without a second level every miss walks",
	  without_a_second_level_every_miss_walks },
	{ "code and data share the second level",
	  code_and_data_share_the_second_level },
	{ "each walk is told", each_walk_is_told },
	{ "it agrees with the naive model", it_agrees_with_the_naive_model },
	{ "settled writes keep the order", settled_writes_keep_the_order },
	{ "geometries are checked", geometries_are_checked },
};

CHECK_MAIN(tests)
