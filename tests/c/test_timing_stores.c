/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What do stores wait for, what waits for them, and what orders them? */
#include "timing.h"

#define L1 CYCLES(4)
#define MEMORY CYCLES(200)
/* An instruction enters, executes and leaves; not more than a few cycles. */
#define FEW CYCLES(4)
/* Distances without a line, stream or set in common. */
#define APART (BASE_PAGE + 64)

static void store(struct rig *rig, uint64_t address, ticks data_ready)
{
	core_instruction(&rig->core);
	core_store(&rig->core, address, 0, data_ready);
}

TEST(loads_get_what_was_stored)
{
	struct timing_config config = plain_config();
	const ticks known = CYCLES(50);
	struct rig *rig = make_rig(&config, false);

	store(rig, 4096, known);
	CHECK_EQUAL(load(rig, 4096, 0), known + L1);
	CHECK_EQUAL(load(rig, 4100, 0), known + L1);
	/* Another word waits for the line. */
	CHECK(load(rig, 4104, 0) >= MEMORY);
	/* And an address that is known later. */
	CHECK_EQUAL(load(rig, 4096, CYCLES(90)), CYCLES(90) + L1);
	/* A later store of the same word. */
	store(rig, 4096, CYCLES(70));
	CHECK_EQUAL(load(rig, 4096, 0), CYCLES(70) + L1);
	drop_rig(rig);
}

/* What left the buffer is in the cache, or not. */
TEST(stores_are_not_remembered_for_ever)
{
	struct timing_config config = plain_config();
	struct rig *rig = make_rig(&config, false);
	ticks now;

	store(rig, 0, 0);
	for (uint64_t i = 1; i < 20000; i++)
		store(rig, i * APART + 8, 0);
	now = all_left(rig);
	CHECK(load(rig, 0, now) >= now + MEMORY);
	drop_rig(rig);
}

TEST(a_store_holds_nothing_up)
{
	struct timing_config config = plain_config();
	struct rig *rig = make_rig(&config, false);

	for (uint64_t i = 0; i < config.store_buffer; i++)
		store(rig, i * APART, 0);
	CHECK(about(all_left(rig), CYCLES(config.store_buffer) / 4, FEW));
	drop_rig(rig);
}

TEST(a_store_waits_for_its_translation)
{
	struct timing_config config = plain_config();
	struct rig *rig = make_rig(&config, false);

	translation_missed(&rig->core.translation, 0, MISS_WALK);
	store(rig, 0, 0);
	CHECK(about(all_left(rig), 2 * MEMORY, FEW));
	drop_rig(rig);
}

/* Before, it might be on a path that is not taken. */
TEST(a_store_goes_to_its_line_once_it_left)
{
	struct timing_config config = plain_config();
	struct rig *rig;

	config.store_buffer = 1;
	rig = make_rig(&config, false);
	load(rig, 0, 0);
	store(rig, APART, 0);
	store(rig, 2 * APART, 0);
	CHECK(about(all_left(rig), 2 * MEMORY, 2 * FEW));
	drop_rig(rig);
}

TEST(stores_go_in_order)
{
	struct timing_config config = plain_config();
	struct rig *rig = make_rig(&config, false);
	ticks now = load(rig, 0, 0);

	store(rig, APART, now);
	store(rig, 0, now);
	core_instruction(&rig->core);
	CHECK(about(core_fence(&rig->core), now + MEMORY, FEW));
	drop_rig(rig);
}

TEST(stores_are_bounded_by_their_buffer)
{
	struct timing_config config = plain_config();
	const uint64_t n = 1600;
	ticks before = UINT64_MAX;

	config.fill_buffers = 64;
	for (config.store_buffer = 1; config.store_buffer <= 16; config.store_buffer *= 2) {
		struct rig *rig = make_rig(&config, false);
		ticks rounds = n / config.store_buffer, time;

		for (uint64_t i = 0; i < n; i++)
			store(rig, i * APART, 0);
		time = all_left(rig);
		CHECK(about(time + MEMORY, rounds * MEMORY,
			    MEMORY + rounds * (FEW + CYCLES(config.store_buffer))));
		CHECK(time < before);
		before = time;
		drop_rig(rig);
	}
}

/* A load or a store before a fence, and a load after it. */
static ticks fenced(bool load_before)
{
	struct timing_config config = plain_config();
	struct rig *rig = make_rig(&config, false);
	ticks time;

	if (load_before)
		load(rig, 0, 0);
	else
		store(rig, 0, 0);
	core_instruction(&rig->core);
	core_fence(&rig->core);
	load(rig, APART, 0);
	time = all_left(rig);
	drop_rig(rig);
	return time;
}

TEST(nothing_overlaps_a_fence)
{
	CHECK(about(fenced(false), 2 * MEMORY, FEW));
	CHECK(about(fenced(true), 2 * MEMORY, FEW));
}

CHECK_MAIN
