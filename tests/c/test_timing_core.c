/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long do known sequences of instructions take? */
#include "timing.h"

#define L1 CYCLES(4)
#define MEMORY CYCLES(200)
/* An instruction enters, executes and leaves; not more than a few cycles. */
#define FEW CYCLES(4)
/* Distances without a line, stream or set in common. */
#define APART (BASE_PAGE + 64)

/* An instruction that loads; when its data are there. */
static ticks load(struct rig *rig, uint64_t address, ticks address_ready)
{
	core_instruction(&rig->core);
	return core_load(&rig->core, address, address_ready);
}

static void store(struct rig *rig, uint64_t address, ticks data_ready)
{
	core_instruction(&rig->core);
	core_store(&rig->core, address, 0, data_ready);
}

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

static bool about(ticks time, ticks expected, ticks more)
{
	if (time >= expected && time <= expected + more)
		return true;
	printf("# %llu is not %llu to %llu\n", (unsigned long long)time,
	       (unsigned long long)expected,
	       (unsigned long long)(expected + more));
	return false;
}

static void width_limits(void)
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

static void a_chain_of_loads_takes_their_latencies(void)
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

static void independent_loads_overlap_up_to_the_window(void)
{
	struct timing_config config = plain_config();
	const uint64_t n = 2048;

	config.misses = 1000;
	for (config.window = 1; config.window <= 64; config.window *= 4) {
		ticks rounds = n / config.window;

		CHECK(about(loads(&config, n, false), rounds * MEMORY,
			    rounds * (FEW + CYCLES(config.window / config.width))));
	}
	/* Other instructions take room, too. */
	config.window = 64;
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

static void independent_loads_overlap_up_to_the_misses(void)
{
	struct timing_config config = plain_config();

	config.window = 512;
	for (config.misses = 1; config.misses <= 16; config.misses *= 2)
		CHECK(about(loads(&config, 1600, false) + SLOT,
			    1600 * MEMORY / config.misses,
			    2 * SLOT + 2 * MEMORY));
	/* A chain has one of them at a time. */
	config.misses = 1;
	CHECK(about(loads(&config, 500, true), 500 * MEMORY, FEW));
}

static void loads_leave_in_order(void)
{
	struct timing_config config = plain_config();
	struct rig *rig = make_rig(&config, false);

	load(rig, 0, 0);
	for (int i = 0; i < 20; i++)
		core_instruction(&rig->core);
	CHECK(about(all_left(rig), MEMORY, FEW + CYCLES(21) / 4));
	drop_rig(rig);
}

static void loads_wait_for_their_translations(void)
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

static void loads_get_what_was_stored(void)
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
static void stores_are_not_remembered_for_ever(void)
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

static void a_store_holds_nothing_up(void)
{
	struct timing_config config = plain_config();
	struct rig *rig = make_rig(&config, false);

	for (uint64_t i = 0; i < config.stores; i++)
		store(rig, i * APART, 0);
	CHECK(about(all_left(rig), CYCLES(config.stores) / 4, FEW));
	drop_rig(rig);
}

static void a_store_waits_for_its_translation(void)
{
	struct timing_config config = plain_config();
	struct rig *rig = make_rig(&config, false);

	translation_missed(&rig->core.translation, 0, MISS_WALK);
	store(rig, 0, 0);
	CHECK(about(all_left(rig), 2 * MEMORY, FEW));
	drop_rig(rig);
}

/* Before, it might be on a path that is not taken. */
static void a_store_goes_to_its_line_once_it_left(void)
{
	struct timing_config config = plain_config();
	struct rig *rig;

	config.stores = 1;
	rig = make_rig(&config, false);
	load(rig, 0, 0);
	store(rig, APART, 0);
	store(rig, 2 * APART, 0);
	CHECK(about(all_left(rig), 2 * MEMORY, 2 * FEW));
	drop_rig(rig);
}

static void stores_go_in_order(void)
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

static void stores_are_bounded_by_their_buffer(void)
{
	struct timing_config config = plain_config();
	const uint64_t n = 1600;
	ticks before = UINT64_MAX;

	config.misses = 64;
	for (config.stores = 1; config.stores <= 16; config.stores *= 2) {
		struct rig *rig = make_rig(&config, false);
		ticks rounds = n / config.stores, time;

		for (uint64_t i = 0; i < n; i++)
			store(rig, i * APART, 0);
		time = all_left(rig);
		CHECK(about(time + MEMORY, rounds * MEMORY,
			    MEMORY + rounds * (FEW + CYCLES(config.stores))));
		CHECK(time < before);
		before = time;
		drop_rig(rig);
	}
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

static void nothing_overlaps_a_branch_that_was_not_predicted(void)
{
	CHECK(about(load_branch_load(true), MEMORY, FEW));
	CHECK(about(load_branch_load(false), 2 * MEMORY + CYCLES(20), FEW));
}

static void a_branch_costs_its_cycles(void)
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

static void nothing_overlaps_a_fence(void)
{
	CHECK(about(fenced(false), 2 * MEMORY, FEW));
	CHECK(about(fenced(true), 2 * MEMORY, FEW));
}

static const struct check_test tests[] = {
	{ "width limits", width_limits },
	{ "a chain of loads takes their latencies",
	  a_chain_of_loads_takes_their_latencies },
	{ "independent loads overlap up to the window",
	  independent_loads_overlap_up_to_the_window },
	{ "independent loads overlap up to the misses",
	  independent_loads_overlap_up_to_the_misses },
	{ "what follows a load leaves after it", loads_leave_in_order },
	{ "loads wait for their translations", loads_wait_for_their_translations },
	{ "loads get what was stored", loads_get_what_was_stored },
	{ "stores are not remembered for ever", stores_are_not_remembered_for_ever },
	{ "a store holds nothing up", a_store_holds_nothing_up },
	{ "a store waits for its translation", a_store_waits_for_its_translation },
	{ "a store goes to its line once it left the window",
	  a_store_goes_to_its_line_once_it_left },
	{ "stores go in order", stores_go_in_order },
	{ "stores are bounded by their buffer", stores_are_bounded_by_their_buffer },
	{ "nothing overlaps a branch that was not predicted",
	  nothing_overlaps_a_branch_that_was_not_predicted },
	{ "a branch that was not predicted costs its cycles", a_branch_costs_its_cycles },
	{ "nothing overlaps a fence", nothing_overlaps_a_fence },
};

CHECK_MAIN(tests)
