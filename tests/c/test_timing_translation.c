/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When is an address translated, alone and alongside others? */
#include "timing.h"

#define L1 CYCLES(4)
#define MEMORY CYCLES(200)
/* What one entry of a page directory covers. */
#define BASE_TABLE ((uint64_t)512 << BASE_SHIFT)

TEST(without_a_miss_it_takes_no_time)
{
	struct timing_config config = plain_config();
	struct rig *rig = make_rig(&config, false);

	config.stlb_cycles = 7;
	for (uint64_t page = 0; page < 5000; page++)
		CHECK_EQUAL(translate(&rig->core.translation, page * BASE_PAGE, page),
			    page);
	drop_rig(rig);
}

TEST(a_second_level_hit_takes_its_cycles)
{
	struct timing_config config = plain_config();
	struct rig *rig;
	ticks now;

	config.stlb_cycles = 7;
	rig = make_rig(&config, false);
	translation_missed(&rig->core.translation, 5 * BASE_PAGE, MISS_STLB_HIT);
	CHECK_EQUAL(translate(&rig->core.translation, 5 * BASE_PAGE, 0), CYCLES(7));
	/* It was that reference's alone. */
	now = quiet(rig);
	CHECK_EQUAL(translate(&rig->core.translation, 5 * BASE_PAGE + 8, now), now);
	/* No page but this. */
	translation_missed(&rig->core.translation, 5 * BASE_PAGE, MISS_STLB_HIT);
	CHECK_EQUAL(translate(&rig->core.translation, 6 * BASE_PAGE, now), now);
	/* A walk comes after the second level was looked up in. */
	CHECK_EQUAL(walk(rig, 9 * BASE_TABLE), CYCLES(7) + 2 * MEMORY);
	drop_rig(rig);
}

TEST(a_walk_reads_through_the_caches)
{
	struct timing_config config = plain_config();

	for (int huge = 0; huge <= 1; huge++) {
		struct rig *rig = make_rig(&config, huge);
		uint64_t page = huge ? HUGE_PAGE : BASE_PAGE;

		/* The directory's entry and the table's. */
		CHECK_EQUAL(walk(rig, 0), 2 * MEMORY);
		/* The next entry, in the same line; the directory is known. */
		CHECK_EQUAL(walk(rig, page), L1);
		/* The next line. */
		CHECK_EQUAL(walk(rig, 8 * page), MEMORY);
		CHECK_EQUAL(walk(rig, 15 * page), L1);
		/* Another table; the directory's line has its entry too. */
		CHECK_EQUAL(walk(rig, 512 * page), L1 + MEMORY);
		CHECK_EQUAL(walk(rig, 512 * 8 * page), 2 * MEMORY);
		drop_rig(rig);
	}
}

TEST(reads_cost_more_with_distance)
{
	struct timing_config config = plain_config();
	ticks near, from_l2, from_l3, far;
	struct rig *rig;

	config.l3_bytes = 4 << 20;
	rig = make_rig(&config, false);
	/* Tables are in the last level. */
	CHECK_EQUAL(walk(rig, 0), 2 * CYCLES(50));
	near = walk(rig, BASE_PAGE);
	/* Twice as many lines of data as L1 has. */
	for (uint64_t page = 0; page < 16 * PAGE_LINES; page++)
		memory_read(&rig->core.memory, page * (PAGE_LINES + 1), quiet(rig),
			    LINE_DATA);
	from_l2 = walk(rig, 2 * BASE_PAGE);
	/* Twice as many as L2. */
	for (uint64_t page = 0; page < 128 * PAGE_LINES; page++)
		memory_read(&rig->core.memory, page * (PAGE_LINES + 1), quiet(rig),
			    LINE_DATA);
	from_l3 = walk(rig, 3 * BASE_PAGE);
	drop_rig(rig);

	config.l3_bytes = 0;
	rig = make_rig(&config, false);
	walk(rig, 0);
	far = walk(rig, 8 * BASE_PAGE);
	CHECK_EQUAL(near, L1);
	CHECK_EQUAL(from_l2, CYCLES(14));
	CHECK_EQUAL(from_l3, CYCLES(50));
	CHECK_EQUAL(far, MEMORY);
	drop_rig(rig);
}

TEST(directories_are_remembered)
{
	struct timing_config config = plain_config();

	for (config.directories = 0; config.directories <= 3; config.directories++) {
		struct rig *rig = make_rig(&config, false);
		const bool fit = config.directories >= 2;

		walk(rig, 0);
		walk(rig, BASE_TABLE);
		/* Both lines are in L1 by now. */
		for (uint64_t i = 1; i < 8; i++) {
			CHECK_EQUAL(walk(rig, i * BASE_PAGE), fit ? L1 : 2 * L1);
			CHECK_EQUAL(walk(rig, BASE_TABLE + i * BASE_PAGE),
				    fit ? L1 : 2 * L1);
		}
		drop_rig(rig);
	}
}

/* The one used longest ago is forgotten. */
TEST(directories_are_kept_by_use)
{
	struct timing_config config = plain_config();
	struct rig *rig;

	config.directories = 2;
	rig = make_rig(&config, false);
	for (uint64_t table = 0; table < 3; table++)
		walk(rig, table * BASE_TABLE);
	CHECK_EQUAL(walk(rig, BASE_TABLE + BASE_PAGE), L1);
	walk(rig, 0);
	CHECK_EQUAL(walk(rig, BASE_TABLE + 2 * BASE_PAGE), L1);
	CHECK_EQUAL(walk(rig, 2 * BASE_TABLE + BASE_PAGE), 2 * L1);
	drop_rig(rig);
}

TEST(each_size_has_its_cycles)
{
	struct timing_config config = plain_config();

	config.walkers = 1;
	config.walk_cycles[1] = 1000;
	for (int huge = 0; huge <= 1; huge++) {
		struct rig *rig = make_rig(&config, huge);
		struct translation *translation = &rig->core.translation;
		uint64_t page = huge ? HUGE_PAGE : BASE_PAGE;
		ticks from, second;

		/* That a walker is busy does not delay what it walked for, */
		CHECK_EQUAL(walk(rig, 0), 2 * MEMORY);
		from = quiet(rig);
		translation_missed(translation, page, MISS_WALK);
		translation_missed(translation, 2 * page, MISS_WALK);
		CHECK_EQUAL(translate(translation, page, from), from + L1);
		/* but the next walk. */
		second = translate(translation, 2 * page, from) - from;
		CHECK(huge ? second + SLOT >= CYCLES(1000) : second <= L1 + SLOT);
		drop_rig(rig);
	}
}

TEST(each_read_takes_its_cycles)
{
	struct timing_config config = plain_config();

	config.read_cycles[0] = config.read_cycles[1] = 30;
	for (int huge = 0; huge <= 1; huge++) {
		struct rig *rig = make_rig(&config, huge);
		const ticks more = CYCLES(30);

		CHECK_EQUAL(walk(rig, 0), 2 * (MEMORY + more));
		CHECK_EQUAL(walk(rig, huge ? HUGE_PAGE : BASE_PAGE), L1 + more);
		drop_rig(rig);
	}
}

TEST(a_page_that_is_being_walked_is_waited_for)
{
	struct timing_config config = plain_config();
	struct rig *rig = make_rig(&config, false);
	struct translation *translation = &rig->core.translation;

	translation_missed(translation, 0, MISS_WALK);
	CHECK_EQUAL(translate(translation, 0, 0), 2 * MEMORY);
	CHECK_EQUAL(translate(translation, 64, 0), 2 * MEMORY);
	CHECK_EQUAL(translate(translation, 128, CYCLES(100)), 2 * MEMORY);
	CHECK_EQUAL(translate(translation, BASE_PAGE, CYCLES(100)), CYCLES(100));
	CHECK_EQUAL(translate(translation, 192, CYCLES(500)), CYCLES(500));
	drop_rig(rig);
}

/* When the last of many walks has ended that were all wanted at once. */
static ticks all_at_once(const struct timing_config *config, uint64_t walks)
{
	struct rig *rig = make_rig(config, false);
	ticks from, last = 0;

	/* Tables and directory are in L1. */
	for (uint64_t page = 0; page < walks; page++)
		walk(rig, page * BASE_PAGE);
	from = quiet(rig);
	for (uint64_t page = 0; page < walks; page++) {
		ticks end;

		translation_missed(&rig->core.translation, page * BASE_PAGE, MISS_WALK);
		end = translate(&rig->core.translation, page * BASE_PAGE, from) - from;
		CHECK(end >= L1);
		last = end > last ? end : last;
	}
	drop_rig(rig);
	return last;
}

/* Some of the cycles that a walker is busy for pass before the address is known. */
TEST(a_part_of_the_walkers_time_is_waited_for)
{
	struct timing_config config = plain_config();
	ticks alone, waited;

	config.walk_cycles[0] = 96;
	alone = all_at_once(&config, 1);
	config.walk_latency = 6;
	waited = all_at_once(&config, 1);
	CHECK_EQUAL(waited - alone, CYCLES(6));
	/* But never more than it is busy. */
	config.walk_latency = 200;
	CHECK_EQUAL(all_at_once(&config, 1) - alone, CYCLES(96));
	/* How often a walk can begin remains. */
	config.walkers = 1;
	waited = all_at_once(&config, 100);
	config.walk_latency = 0;
	CHECK_EQUAL(waited - all_at_once(&config, 100), CYCLES(96));
}

TEST(walkers_walk_at_once)
{
	struct timing_config config = plain_config();
	const uint64_t walks = 400;
	ticks before = 0;

	config.walk_cycles[0] = 96;
	for (config.walkers = 16; config.walkers; config.walkers /= 2) {
		ticks busy = walks * CYCLES(100), time = all_at_once(&config, walks);

		/* The last one is still busy when its translation is there. */
		CHECK(time + CYCLES(96) + SLOT >= busy / config.walkers);
		CHECK(time <= busy / config.walkers + SLOT);
		CHECK(time > before);
		CHECK_EQUAL(all_at_once(&config, config.walkers / 2), config.walkers > 1 ? L1 : 0);
		before = time;
	}
}

CHECK_MAIN
