/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long do known sequences of instructions take? */
#include "timing.h"

#define L1 CYCLES(4)
#define MEMORY CYCLES(200)
/* An instruction enters, executes and leaves; not more than a few cycles. */
#define FEW CYCLES(4)
/* Distances without a line, stream or set in common. */
#define APART (BASE_PAGE + 64)

/* n loads that wait for each other, or that do not. */
static ticks loads(const struct timing_config *config, uint64_t n, bool chain)
{
	struct rig *rig = make_rig(config, false);
	ticks ready = 0, time;

	for (uint64_t i = 0; i < n; i++)
		ready = load(rig, i * APART, chain ? ready : 0);
	time = all_left(rig);
	drop_rig(rig);
	return time;
}

TEST(width_limits)
{
	struct timing_config config = plain_config();

	for (config.width = 1; config.width <= 16; config.width *= 2) {
		struct rig *rig = make_rig(&config, false);

		for (int i = 0; i < 16000; i++)
			core_instruction(&rig->core);
		CHECK(about(all_left(rig), CYCLES(16000) / config.width, FEW));
		drop_rig(rig);
	}
}

TEST(a_chain_of_loads_takes_their_latencies)
{
	struct timing_config config = plain_config();
	struct rig *rig = make_rig(&config, false);
	ticks ready = 0;

	CHECK(about(loads(&config, 500, true), 500 * MEMORY, FEW));
	for (int i = 0; i < 1000; i++)
		ready = load(rig, 0, ready);
	CHECK(about(all_left(rig), MEMORY + 999 * L1, FEW));
	drop_rig(rig);
}

TEST(independent_loads_overlap_up_to_the_window)
{
	struct timing_config config = plain_config();
	const uint64_t n = 2048;

	config.fill_buffers = 1000;
	for (config.reorder_buffer = 1; config.reorder_buffer <= 64; config.reorder_buffer *= 4) {
		ticks rounds = n / config.reorder_buffer;

		CHECK(about(loads(&config, n, false), rounds * MEMORY,
			    rounds * (FEW + CYCLES(config.reorder_buffer / config.width))));
	}
	/* Other instructions take room, too. */
	config.reorder_buffer = 64;
	for (int others = 0; others < 64; others = 2 * others + 1) {
		struct rig *rig = make_rig(&config, false);
		ticks rounds = n * (ticks)(others + 1) / 64;

		for (uint64_t i = 0; i < n; i++) {
			load(rig, i * APART, 0);
			for (int j = 0; j < others; j++)
				core_instruction(&rig->core);
		}
		CHECK(about(all_left(rig) + MEMORY, rounds * MEMORY,
			    MEMORY + rounds * (FEW + CYCLES(16))));
		drop_rig(rig);
	}
}

TEST(independent_loads_overlap_up_to_the_misses)
{
	struct timing_config config = plain_config();

	config.reorder_buffer = 512;
	for (config.fill_buffers = 1; config.fill_buffers <= 16; config.fill_buffers *= 2)
		CHECK(about(loads(&config, 1600, false) + SLOT,
			    1600 * MEMORY / config.fill_buffers,
			    2 * SLOT + 2 * MEMORY));
	/* A chain has one of them at a time. */
	config.fill_buffers = 1;
	CHECK(about(loads(&config, 500, true), 500 * MEMORY, FEW));
}

TEST(loads_leave_in_order)
{
	struct timing_config config = plain_config();
	struct rig *rig = make_rig(&config, false);

	load(rig, 0, 0);
	for (int i = 0; i < 20; i++)
		core_instruction(&rig->core);
	CHECK(about(all_left(rig), MEMORY, FEW + CYCLES(21) / 4));
	drop_rig(rig);
}

TEST(loads_wait_for_their_translations)
{
	struct timing_config config = plain_config();
	struct rig *rig = make_rig(&config, false);
	ticks ready;

	translation_missed(&rig->core.translation, 0, MISS_WALK);
	ready = load(rig, 0, 0);
	CHECK(about(ready, 3 * MEMORY, FEW));
	CHECK(about(load(rig, APART, ready), 4 * MEMORY, FEW));
	drop_rig(rig);
}

/* A load, a branch on what it loaded, and another load. */
static ticks load_branch_load(bool predicted)
{
	struct timing_config config = plain_config();
	struct rig *rig = make_rig(&config, false);
	ticks ready = load(rig, 0, 0), time;

	core_instruction(&rig->core);
	core_branch(&rig->core, ready, predicted);
	load(rig, APART, 0);
	time = all_left(rig);
	drop_rig(rig);
	return time;
}

TEST(nothing_overlaps_a_branch_that_was_not_predicted)
{
	CHECK(about(load_branch_load(true), MEMORY, FEW));
	CHECK(about(load_branch_load(false), 2 * MEMORY + CYCLES(20), FEW));
}

TEST(a_branch_costs_its_cycles)
{
	struct timing_config config = plain_config();

	for (config.mispredict = 0; config.mispredict <= 40; config.mispredict += 20) {
		struct rig *rig = make_rig(&config, false);

		for (int i = 0; i < 100; i++) {
			core_instruction(&rig->core);
			core_branch(&rig->core, 0, false);
		}
		CHECK(about(all_left(rig), CYCLES(100 * config.mispredict), CYCLES(400)));
		drop_rig(rig);
	}
}

CHECK_MAIN
