/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When has a cache evicted a line, by the ages at which sampled lines were accessed? */
#include "timing.h"

#define LINES 10000u	/* of the cache */
#define DRAWS 2048u

/* A ring of this number of lines is accessed for this many references; all lines are sampled. */
static struct reuse ring(uint64_t lines, uint64_t references)
{
	struct reuse reuse = { .span = references };

	for (uint64_t i = 0; i < references; i++)
		reuse_saw(&reuse, LINE_DATA, lines);
	reuse.until = references;
	reuse_fade(&reuse, references);
	return reuse;
}

/* Steps of ages are an eighth of their power of two at most. */
static void check_within_a_step(uint64_t found, uint64_t wanted)
{
	CHECK(about(found, wanted - wanted / 8, wanted / 4));
}

static void a_ring_fits_or_is_evicted_when_the_cache_is_full(void)
{
	struct reuse reuse = ring(LINES / 2, 1 << 20);

	CHECK_EQUAL(reuse_evicted_after(&reuse, LINES, false), NEVER_ACCESSED);
	CHECK_EQUAL(reuse_kept_for(&reuse, LINES, false), NEVER_ACCESSED);
	reuse = ring(4 * LINES, 1 << 20);
	check_within_a_step(reuse_evicted_after(&reuse, LINES, false), LINES);
	reuse = (struct reuse){ .span = 0 };
	CHECK_EQUAL(reuse_evicted_after(&reuse, LINES, false), NEVER_ACCESSED);
	CHECK_EQUAL(reuse_kept_for(&reuse, LINES, false), NEVER_ACCESSED);
}

/* Of ages drawn for the ring, how many are below this, out of DRAWS? */
static uint32_t drawn_below(const struct reuse *reuse, uint64_t age)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < DRAWS; i++)
		count += reuse_age(reuse, LINE_DATA, 0, scatter(i)) < age;
	return count;
}

/* The best that a cache can do with a ring is to hold as much of it as fits. */
static void what_is_kept_of_a_ring_is_what_fits(void)
{
	for (uint64_t times = 2; times <= 8; times *= 2) {
		struct reuse reuse = ring(times * LINES, 1 << 20);
		uint32_t there = drawn_below(&reuse, reuse_kept_for(&reuse, LINES, false));

		CHECK(about(there, DRAWS / times - DRAWS / 20, DRAWS / 10));
	}
}

/* One reference in ten is to a new line, the others to one: a tenth of the time fills it. */
static void lines_that_never_come_back_fill_it_but_are_not_kept(void)
{
	struct reuse reuse = { .span = 1 << 20 };

	for (uint32_t i = 0; i < 1 << 20; i++)
		reuse_saw(&reuse, LINE_DATA, i % 10 ? 1 : NEVER_ACCESSED);
	check_within_a_step(reuse_evicted_after(&reuse, LINES, false), 10 * LINES);
	CHECK_EQUAL(reuse_kept_for(&reuse, LINES, false), NEVER_ACCESSED);
}

static void tables_need_room_only_where_there_are_any(void)
{
	struct reuse reuse = ring(8 * LINES, 1 << 20);

	for (uint64_t i = 0; i < reuse.span; i++)
		reuse_saw(&reuse, LINE_TABLE, 8 * LINES);
	check_within_a_step(reuse_evicted_after(&reuse, LINES, false), LINES);
	check_within_a_step(reuse_evicted_after(&reuse, LINES, true), LINES / 2);
}

static void a_smaller_sample_and_an_older_one_say_the_same(void)
{
	struct reuse reuse = ring(4 * LINES, 1 << 20);
	const uint64_t before = reuse_evicted_after(&reuse, LINES, false);

	reuse_thin(&reuse);
	check_within_a_step(reuse_evicted_after(&reuse, LINES, false), before);
	CHECK_EQUAL(reuse.rarity, 1);
	reuse.until = 5;
	reuse_fade(&reuse, 5);
	check_within_a_step(reuse_evicted_after(&reuse, LINES, false), before);
}

static void ages_are_those_of_lines_not_seen_since(void)
{
	struct reuse reuse = { .span = 1000 };

	CHECK_EQUAL(reuse_age(&reuse, LINE_DATA, 0, 7), NEVER_ACCESSED);
	for (uint32_t i = 0; i < 900; i++)
		reuse_saw(&reuse, LINE_DATA, i % 9 ? 3 : 5000);
	for (uint32_t i = 0; i < 4; i++)
		reuse_saw(&reuse, LINE_TABLE, 70);
	CHECK_EQUAL(reuse_age(&reuse, LINE_DATA, 0, 7), NEVER_ACCESSED);
	reuse_fade(&reuse, 1000);
	for (uint32_t i = 0; i < DRAWS; i++) {
		const uint64_t age = reuse_age(&reuse, LINE_DATA, 100, scatter(i));

		CHECK(age >= 4096 && age < 5632);
	}
	CHECK(about(drawn_below(&reuse, 100), DRAWS * 5 / 6, DRAWS / 10));
	CHECK_EQUAL(reuse_age(&reuse, LINE_DATA, 6000, 7), NEVER_ACCESSED);
	/* Age and what has passed may be in one step. */
	CHECK(reuse_age(&reuse, LINE_DATA, 5300, 0) >= 5300);
	check_within_a_step(reuse_age(&reuse, LINE_TABLE, 0, 7), 70);
}

/* A core that knows no half-life, in a window of a program whose ring is four times its cache. */
static struct rig *in_ring(const struct reuse *reuse, uint32_t adaptive)
{
	struct timing_config config = plain_config();
	struct rig *rig;

	config.l3_bytes = LINES << LINE_SHIFT;
	config.l3_adaptive = adaptive;
	rig = make_rig(&config, false);
	rig->core.memory.l3.reuse = reuse;
	return rig;
}

/* Of a thousand lines, none near another, how many come from the last level? */
static uint32_t there(struct rig *rig)
{
	uint32_t count = 0;

	for (uint64_t i = 1; i <= 1000; i++) {
		ticks start = quiet(rig);

		last_level_begin(&rig->core.memory.l3, start, start, 0, CYCLES(10));
		count += memory_read(&rig->core.memory, i * 1000, start, LINE_DATA) - start <
			 CYCLES(100);
	}
	return count;
}

static void the_last_level_has_what_its_age_allows(void)
{
	const struct reuse fits = ring(LINES / 2, 1 << 20), four = ring(4 * LINES, 1 << 20);
	struct rig *rig = in_ring(&fits, 0);

	CHECK_EQUAL(there(rig), 1000);
	drop_rig(rig);
	rig = in_ring(&four, 0);
	CHECK_EQUAL(there(rig), 0);
	drop_rig(rig);
	rig = in_ring(&four, 100);
	CHECK(about(there(rig), 200, 100));
	drop_rig(rig);
	rig = in_ring(&four, 50);
	CHECK(about(there(rig), 90, 70));
	drop_rig(rig);
}

static void tables_never_read_before_are_in_memory(void)
{
	const struct reuse fits = ring(LINES / 2, 1 << 20);
	struct rig *rig = in_ring(&fits, 0);
	const ticks start = quiet(rig);

	last_level_begin(&rig->core.memory.l3, 0, 0, 0, CYCLES(10));
	CHECK_EQUAL(memory_read_table(&rig->core.memory, 5000, start, NEVER_ACCESSED) - start,
		    CYCLES(200));
	CHECK_EQUAL(memory_read_table(&rig->core.memory, 9000, start, 0) - start, CYCLES(50));
	drop_rig(rig);
}

/* That a line came along with its neighbour does not make it younger. */
static void neighbours_brought_along_are_no_younger(void)
{
	const struct reuse four = ring(4 * LINES, 1 << 20);
	struct rig *rig = in_ring(&four, 0);
	struct last_level *level = &rig->core.memory.l3;
	struct wish wish = { LINE_DATA, AGE_UNKNOWN, true };

	last_level_begin(level, 0, 0, 0, CYCLES(10));
	CHECK(!last_level_has(level, 77, 0, wish));
	CHECK(!last_level_has(level, 77, CYCLES(10), wish));
	wish.paired = false;
	CHECK(!last_level_has(level, 77, CYCLES(20), wish));
	CHECK(last_level_has(level, 77, CYCLES(30), wish));
	drop_rig(rig);
}

static const struct check_test tests[] = {
	{ "a ring fits, or is evicted when the cache is full",
	  a_ring_fits_or_is_evicted_when_the_cache_is_full },
	{ "what is kept of a ring is what fits", what_is_kept_of_a_ring_is_what_fits },
	{ "lines that never come back fill it, but are not kept",
	  lines_that_never_come_back_fill_it_but_are_not_kept },
	{ "tables need room only where there are any", tables_need_room_only_where_there_are_any },
	{ "a smaller sample and an older one say the same",
	  a_smaller_sample_and_an_older_one_say_the_same },
	{ "ages are those of lines not seen since", ages_are_those_of_lines_not_seen_since },
	{ "the last level has what its age allows", the_last_level_has_what_its_age_allows },
	{ "tables never read before are in memory", tables_never_read_before_are_in_memory },
	{ "neighbours brought along are no younger", neighbours_brought_along_are_no_younger },
};

CHECK_MAIN(tests)
