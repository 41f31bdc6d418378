/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Machines that watch one run: each must count what it would count alone. */
#include "tlb_rig.h"

static const struct tlb_config at_hand = {
	.page_shift = { 12, 21 },
	.l1d = { { 96, 6 }, { 32, 4 } },
	.l1i = { { 64, 8 }, { 8, 8 } },
	.stlb = { { 512, 16 }, { 256, 16 } },
};

#define VIEW(shift, data, data_ways, code, code_ways, second, second_ways)         \
	.page_shift = shift, .l1d = { data, data_ways }, .l1i = { code, code_ways }, \
	.stlb = { second, second_ways }

/* First levels that are searched, and ones that are too large for that. */
static const struct tlb_view_config views_of_all_kinds[] = {
	/* Sandy Bridge: the second level holds base pages only. */
	{ VIEW(12, 64, 4, 128, 4, 512, 4) },
	{ VIEW(21, 32, 4, 8, 8, 0, 0) },
	{ VIEW(30, 4, 4, 4, 4, 0, 0) },
	/* Zen: fully associative, and a second level for code alone. */
	{ VIEW(12, 72, 72, 64, 64, 768, 24), .split = true, .stlb_code = { 64, 8 } },
	{ VIEW(21, 72, 72, 64, 64, 768, 24), .split = true, .stlb_code = { 0, 0 } },
	{ VIEW(30, 72, 72, 64, 64, 0, 0), .split = true, .stlb_code = { 64, 8 } },
	/* Skylake: 16 entries for 1 GiB pages, folded second levels. */
	{ VIEW(12, 64, 4, 128, 8, 1024, 16), .folded = true },
	{ VIEW(30, 4, 4, 4, 4, 16, 4), .folded = true },
	/* 64 KiB, few entries, one entry, direct-mapped, no power of two. */
	{ VIEW(16, 48, 48, 48, 48, 256, 4) },
	{ VIEW(16, 16, 1, 2, 2, 64, 1) },
	{ VIEW(12, 1, 1, 1, 1, 4, 4), .folded = true },
	{ VIEW(12, 36, 3, 36, 12, 36 * 6, 6) },
	/* As one above, as another machine may be. */
	{ VIEW(12, 64, 4, 128, 4, 512, 4) },
};

#define ALL (sizeof(views_of_all_kinds) / sizeof(views_of_all_kinds[0]))

static void run_mixed(struct rig *rig)
{
	for (unsigned i = 0; i < 60000; i++) {
		const uint64_t address = mixed_address(i);

		reference(rig, address, mixed_side());
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

	run_mixed(alone);
	state = start;
	watched = make_rig(&at_hand, views_of_all_kinds, ALL, true);
	run_mixed(watched);
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
	run_mixed(rig);
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
		{ VIEW(12, 64, 4, 128, 4, 512, 4) },
		{ VIEW(12, 64, 4, 128, 4, 512, 4) },
		{ VIEW(30, 4, 4, 4, 4, 0, 0), .mapped = true, .rest = 1 },
		{ VIEW(30, 4, 4, 4, 4, 0, 0), .mapped = true, .rest = TLB_REST_BASE },
	};
	struct rig *rig = make_rig(&at_hand, twins, 4, true);

	rig->views.data.backed = rig->views.code.backed = never_backed;
	run_mixed(rig);
	tlb_model_flush(&rig->model);
	check_counts(tlb_view_counts(&rig->views, 2),
		     tlb_view_counts(&rig->views, 1));
	check_counts(tlb_view_counts(&rig->views, 3),
		     rig->model.counts[TLB_BASE]);
	drop_rig(rig);
}

CHECK_MAIN
