/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Programs whose overlap is known by construction: chases side by side, a
 * chase with arithmetic, updates of a table that wait for each other or not.
 * Asserted are bounds and orders that hold whatever the constants are.
 */
#include "timing.h"

#define STEPS 20000u
#define MOST_CHAINS 16u
#define L1 CYCLES(4)
#define MEMORY CYCLES(200)

/* What each step's reference finds in the TLBs. */
enum pages { BASE, HUGE };

static struct rig *start(const struct timing_config *config, enum pages pages)
{
	return make_rig(config, pages == HUGE);
}

/* An address in a page of its own for each step: 4 GiB in a scattered order. */
static uint64_t place(uint64_t step)
{
	return (step * 40503 + 12345) % (1 << 20) * BASE_PAGE + step % 61 * 64;
}

/* An instruction that loads from a page; on base pages it misses the TLBs. */
static ticks visit(struct rig *rig, enum pages pages, uint64_t step, ticks ready)
{
	core_instruction(&rig->core);
	if (pages == BASE)
		translation_missed(&rig->core.translation, place(step), MISS_WALK);
	return core_load(&rig->core, place(step), ready);
}

/* Ticks per step of this many chases in turn, with this many other instructions. */
static double chase(const struct timing_config *config, enum pages pages,
		    uint32_t chains, uint32_t others)
{
	struct rig *rig = start(config, pages);
	ticks ready[MOST_CHAINS] = { 0 };
	double time;

	for (uint32_t step = 0; step < STEPS; step++) {
		uint32_t chain = step % chains;

		ready[chain] = visit(rig, pages, step, ready[chain]);
		for (uint32_t i = 0; i < others; i++)
			core_instruction(&rig->core);
	}
	time = (double)all_left(rig) / STEPS;
	drop_rig(rig);
	return time;
}

/* Slots and the last step's latency, over all the steps. */
static double slack(void)
{
	return (double)(2 * SLOT + 10 * MEMORY) / STEPS;
}

TEST(more_chases_take_less_each)
{
	struct timing_config config = plain_config();

	config.walkers = 4;
	for (int pages = BASE; pages <= HUGE; pages++) {
		double one = chase(&config, pages, 1, 0), before = one;

		for (uint32_t chains = 2; chains <= MOST_CHAINS; chains++) {
			double time = chase(&config, pages, chains, 0);

			CHECK(time <= before * 1.02);
			/* Chains do not help each other. */
			CHECK(time >= one / chains * 0.98);
			before = time;
		}
		CHECK(before < one / 2);
	}
}

TEST(k_chases_take_a_kth)
{
	struct timing_config config = plain_config();

	config.walkers = 16;
	config.fill_buffers = 64;
	for (uint32_t chains = 2; chains <= MOST_CHAINS; chains *= 2) {
		double one = chase(&config, BASE, 1, 0);
		double time = chase(&config, BASE, chains, 0);

		CHECK(time <= one / chains * 1.05 + slack());
	}
}

TEST(arithmetic_alongside_a_chase)
{
	struct timing_config config = plain_config();
	double before[2] = { 0, 0 };

	config.reorder_buffer = 1024;
	for (uint32_t others = 0; others <= 4096; others = others * 4 + 1)
		for (int pages = BASE; pages <= HUGE; pages++) {
			double alone = chase(&config, pages, 1, 0);
			double arithmetic = (double)CYCLES(others + 1) / config.width;
			double time = chase(&config, pages, 1, others);

			CHECK(time >= alone * 0.99 && time >= arithmetic);
			CHECK(time <= alone + arithmetic + slack());
			CHECK(time >= before[pages] * 0.99);
			before[pages] = time;
		}
	/* What the window can hide it does, */
	CHECK(chase(&config, BASE, 1, 500) <= chase(&config, BASE, 1, 0) * 1.02);
	/* and with it what walks cost. */
	config.width = 1;
	CHECK(chase(&config, BASE, 2, 900) <= (double)CYCLES(901) + slack());
	CHECK(chase(&config, HUGE, 2, 900) >= (double)CYCLES(901));
}

/* Add to one word after the other; `waits`: each place is known by the last word. */
static double update(const struct timing_config *config, enum pages pages, bool waits)
{
	struct rig *rig = start(config, pages);
	ticks ready = 0;
	double time;

	for (uint32_t step = 0; step < STEPS; step++) {
		ready = visit(rig, pages, step, waits ? ready : 0);
		core_instruction(&rig->core);
		core_store(&rig->core, place(step), 0, ready + TICKS_PER_CYCLE);
	}
	time = (double)all_left(rig) / STEPS;
	drop_rig(rig);
	return time;
}

TEST(updates_of_a_table)
{
	struct timing_config config = plain_config();
	double walks[2];

	for (int waits = 0; waits <= 1; waits++)
		walks[waits] = update(&config, BASE, waits) -
			       update(&config, HUGE, waits);
	for (int pages = BASE; pages <= HUGE; pages++) {
		double waiting = update(&config, pages, true);
		double independent = update(&config, pages, false);

		/* The store finds the line and the translation of its load. */
		CHECK(waiting >= chase(&config, pages, 1, 0));
		CHECK(waiting <= chase(&config, pages, 1, 0) + slack() +
					 (double)CYCLES(4));
		CHECK(independent >= (double)MEMORY / config.fill_buffers - slack());
		CHECK(independent < waiting / 2);
	}
	/* What walks cost is hidden in part where nothing waits. */
	CHECK(walks[1] >= (double)L1);
	CHECK(walks[0] > 0 && walks[0] < walks[1]);
}

CHECK_MAIN
