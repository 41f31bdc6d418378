/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Machines that watch one run: each must count what it would count alone. */
#include "tlb_rig.h"

static const struct tlb_config at_hand = {
	.page_shift = { 12, 21 },
	.l1d = { { 96, 6 }, { 32, 4 } },
	.l1i = { { 64, 8 }, { 8, 8 } },
	.stlb = { { 512, 16 }, { 256, 16 } },
};

/* First levels that are searched, and ones that are too large for that. */
static const struct tlb_view_config views_of_all_kinds[] = {
	/* Sandy Bridge: the second level holds base pages only. */
	{ 12, { 64, 4 }, { 128, 4 }, { 512, 4 }, false, { 0, 0 }, false,
	  false, 0 },
	{ 21, { 32, 4 }, { 8, 8 }, { 0, 0 }, false, { 0, 0 }, false,
	  false, 0 },
	{ 30, { 4, 4 }, { 4, 4 }, { 0, 0 }, false, { 0, 0 }, false,
	  false, 0 },
	/* Zen: fully associative, and a second level for code alone. */
	{ 12, { 72, 72 }, { 64, 64 }, { 768, 24 }, true, { 64, 8 }, false,
	  false, 0 },
	{ 21, { 72, 72 }, { 64, 64 }, { 768, 24 }, true, { 0, 0 }, false,
	  false, 0 },
	{ 30, { 72, 72 }, { 64, 64 }, { 0, 0 }, true, { 64, 8 }, false,
	  false, 0 },
	/* Skylake: 16 entries for 1 GiB pages, folded second levels. */
	{ 12, { 64, 4 }, { 128, 8 }, { 1024, 16 }, false, { 0, 0 }, true,
	  false, 0 },
	{ 30, { 4, 4 }, { 4, 4 }, { 16, 4 }, false, { 0, 0 }, true,
	  false, 0 },
	/* 64 KiB, few entries, one entry, direct-mapped, no power of two. */
	{ 16, { 48, 48 }, { 48, 48 }, { 256, 4 }, false, { 0, 0 }, false,
	  false, 0 },
	{ 16, { 16, 1 }, { 2, 2 }, { 64, 1 }, false, { 0, 0 }, false,
	  false, 0 },
	{ 12, { 1, 1 }, { 1, 1 }, { 4, 4 }, false, { 0, 0 }, true,
	  false, 0 },
	{ 12, { 36, 3 }, { 36, 12 }, { 36 * 6, 6 }, false, { 0, 0 }, false,
	  false, 0 },
	/* As one above, as another machine may be. */
	{ 12, { 64, 4 }, { 128, 4 }, { 512, 4 }, false, { 0, 0 }, false,
	  false, 0 },
};

#define ALL (sizeof(views_of_all_kinds) / sizeof(views_of_all_kinds[0]))

/* Some pages often, some seldom; phases of frequent and of rare misses. */
static uint64_t mixed_address(unsigned i)
{
	uint64_t r = random_number();

	if (i / 5000 % 3 == 1)
		return (r >> 8 & 0xffffffff) << 8;
	if (i / 5000 % 3 == 2 && (r & 31))
		return 0x7f0000000000 + (r >> 8 & 0x3fff);
	switch (r & 15) {
	case 0:
		return (r >> 8 & 0xfff) << 12;
	case 1:
		return (r >> 8 & 0x1f) << 21;
	case 2:
		return 0x1000000000 + ((r >> 8 & 0x7) << 30);
	case 3:
		return (r >> 8 & 0xff) << 16;
	case 4:
	case 5:
	case 6:
		return 0x7f0000000000 + (r >> 8 & 0x7fff);
	default:
		return 0x10000000 + (r >> 8 & 0x3ffff);
	}
}

static void compare_with_naive(bool filter)
{
	struct naive_machine *naive = calloc(ALL, sizeof(*naive));
	struct rig *rig = make_rig(&at_hand, views_of_all_kinds, ALL, filter);

	for (unsigned i = 0; i < 120000; i++) {
		uint64_t address = mixed_address(i);
		enum tlb_side side = mixed_side();

		reference(rig, address, side);
		for (uint32_t view = 0; view < ALL; view++)
			naive_reference(&naive[view], &views_of_all_kinds[view],
					address, side);
	}
	tlb_model_flush(&rig->model);
	for (uint32_t view = 0; view < ALL; view++)
		check_counts(tlb_view_counts(&rig->views, view),
			     naive[view].counts);
	drop_rig(rig);
	free(naive);
}

TEST(views_agree_with_the_naive_model)
{
	compare_with_naive(true);
	compare_with_naive(false);
}

/* The machine at hand must not notice who watches. */
TEST(watchers_change_nothing)
{
	const uint64_t start = state;
	struct rig *alone = make_rig(&at_hand, NULL, 0, true), *watched;

	for (unsigned i = 0; i < 60000; i++) {
		uint64_t address = mixed_address(i);

		reference(alone, address, mixed_side());
	}
	state = start;
	watched = make_rig(&at_hand, views_of_all_kinds, ALL, true);
	for (unsigned i = 0; i < 60000; i++) {
		uint64_t address = mixed_address(i);

		reference(watched, address, mixed_side());
	}
	tlb_model_flush(&alone->model);
	tlb_model_flush(&watched->model);
	for (int size = 0; size < TLB_SIZES; size++)
		check_counts(watched->model.counts[size],
			     alone->model.counts[size]);
	drop_rig(alone);
	drop_rig(watched);
}

static uint64_t reported[ALL][2];

static void tell(uint32_t view, uint64_t address, enum tlb_side side, bool walk)
{
	(void)address, (void)side;
	reported[view][walk]++;
}

TEST(each_miss_is_reported_for_each_view)
{
	struct rig *rig = make_rig(&at_hand, views_of_all_kinds, ALL, true);

	memset(reported, 0, sizeof(reported));
	tlb_model_hold(&rig->model, true);
	rig->views.missed = tell;
	for (unsigned i = 0; i < 60000; i++) {
		uint64_t address = mixed_address(i);

		reference(rig, address, mixed_side());
	}
	for (uint32_t view = 0; view < ALL; view++) {
		const struct tlb_counts *counts =
			tlb_view_counts(&rig->views, view);
		uint64_t walks = 0, hits = 0;

		for (int side = 0; side < TLB_SIDES; side++) {
			walks += counts[side].stlb_misses;
			hits += counts[side].stlb_hits;
		}
		CHECK(walks > 0);
		CHECK_EQUAL(reported[view][true], walks);
		CHECK_EQUAL(reported[view][false], hits);
	}
	drop_rig(rig);
}

static bool never_backed(uint64_t address, uint32_t shift)
{
	(void)address, (void)shift;
	return false;
}

/* Where no page of 1 GiB can be one, each machine misses as on its own base pages. */
TEST(the_rest_misses_as_alike_machines_do)
{
	const struct tlb_view_config twins[] = {
		{ 12, { 64, 4 }, { 128, 4 }, { 512, 4 }, false, { 0, 0 }, false,
		  false, 0 },
		{ 12, { 64, 4 }, { 128, 4 }, { 512, 4 }, false, { 0, 0 }, false,
		  false, 0 },
		{ 30, { 4, 4 }, { 4, 4 }, { 0, 0 }, false, { 0, 0 }, false,
		  true, 1 },
		{ 30, { 4, 4 }, { 4, 4 }, { 0, 0 }, false, { 0, 0 }, false,
		  true, TLB_REST_BASE },
	};
	struct rig *rig = make_rig(&at_hand, twins, 4, true);

	rig->views.data.backed = rig->views.code.backed = never_backed;
	for (unsigned i = 0; i < 60000; i++) {
		uint64_t address = mixed_address(i);

		reference(rig, address, mixed_side());
	}
	tlb_model_flush(&rig->model);
	check_counts(tlb_view_counts(&rig->views, 2),
		     tlb_view_counts(&rig->views, 1));
	check_counts(tlb_view_counts(&rig->views, 3),
		     rig->model.counts[TLB_BASE]);
	drop_rig(rig);
}

CHECK_MAIN
