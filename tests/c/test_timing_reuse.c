/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When has a cache evicted a line, by the ages at which sampled lines were accessed? */
#include "timing.h"

#define LINES 10000u	/* of the cache */
#define DRAWS 2048u

static const struct reuse_kept none;

/* A ring of this number of lines is accessed for this many references; all lines are sampled. */
static struct reuse ring(uint64_t lines, uint64_t references)
{
	struct reuse reuse = { .span = references, .sampled = 1 };

	for (uint64_t i = 0; i < references; i++)
		reuse_saw(&reuse, LINE_DATA, lines, lines);
	reuse.until = references;
	reuse_fade(&reuse, references);
	return reuse;
}

/* Of lines of this age, how many are kept, out of REUSE_ALL? */
static uint32_t kept(const struct reuse *reuse, uint64_t lines, uint64_t age)
{
	return reuse_kept(reuse, lines, false).part[LINE_DATA][reuse_log(age)];
}

/* Steps of ages are a 32nd of their power of two. */
static void check_within_a_step(uint64_t found, uint64_t wanted)
{
	CHECK(about(found, wanted - wanted / 32, wanted / 16));
}

static uint64_t evicted_after(const struct reuse *reuse, bool tables)
{
	return reuse_evicted_after(reuse, LINES, tables, &none);
}

TEST(a_ring_fits_or_is_evicted_when_the_cache_is_full)
{
	struct reuse reuse = ring(LINES / 2, 1 << 20);

	CHECK_EQUAL(evicted_after(&reuse, false), NEVER_ACCESSED);
	CHECK_EQUAL(kept(&reuse, LINES, LINES / 2), REUSE_ALL);
	reuse = ring(4 * LINES, 1 << 20);
	check_within_a_step(evicted_after(&reuse, false), LINES);
	reuse = (struct reuse){ .span = 0 };
	CHECK_EQUAL(evicted_after(&reuse, false), NEVER_ACCESSED);
}

/* Of ages drawn for the ring, how many are below this, out of DRAWS? */
static uint32_t drawn_below(const struct reuse *reuse, uint64_t age)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < DRAWS; i++)
		count += reuse_age(reuse, LINE_DATA, 0, scatter(i)) < age;
	return count;
}

/* The best that a cache can do with a ring is to hold as much of it as fits, */
TEST(what_is_kept_of_a_ring_is_what_fits)
{
	for (uint64_t times = 2; times <= 8; times *= 2) {
		struct reuse reuse = ring(times * LINES, 1 << 20);

		CHECK(about(kept(&reuse, LINES, times * LINES), REUSE_ALL / times - 2, 4));
	}
}

/* and with lines that are accessed at random, too: it does not know which are next. */
TEST(what_is_kept_of_random_lines_is_what_fits)
{
	struct reuse reuse = { .span = 1 << 20, .sampled = 1 };

	for (uint32_t i = 0; i < 1 << 20; i++)
		reuse_saw(&reuse, LINE_DATA, scatter(i) % (8 * LINES), 4 * LINES);
	CHECK(about(kept(&reuse, LINES, LINES / 8), REUSE_ALL / 4 - 2, 4));
	CHECK(about(kept(&reuse, LINES, 7 * LINES), REUSE_ALL / 4 - 2, 4));
}

/* One reference in ten is to a new line, the others to one: a tenth of the time fills it. */
TEST(lines_that_never_come_back_fill_it_but_are_not_kept)
{
	struct reuse reuse = { .span = 1 << 20, .sampled = 1 };

	for (uint32_t i = 0; i < 1 << 20; i++)
		reuse_saw(&reuse, LINE_DATA, i % 10 ? 1 : NEVER_ACCESSED, 1);
	check_within_a_step(evicted_after(&reuse, false), 10 * LINES);
	CHECK_EQUAL(kept(&reuse, LINES, 1), REUSE_ALL);
}

/* A ring that half of the cache and the other half hold is there: they do not hold the same. */
TEST(what_is_kept_leaves_room_for_the_rest)
{
	struct reuse reuse = ring(LINES * 9 / 10, 1 << 20);
	struct reuse_kept half = reuse_kept(&reuse, LINES / 2, false);

	CHECK(reuse_evicted_after(&reuse, LINES / 2, false, &none) < LINES * 6 / 10);
	CHECK_EQUAL(reuse_evicted_after(&reuse, LINES / 2, false, &half), NEVER_ACCESSED);
}

TEST(tables_need_room_only_where_there_are_any)
{
	struct reuse reuse = ring(8 * LINES, 1 << 20);

	for (uint64_t i = 0; i < reuse.span; i++)
		reuse_saw(&reuse, LINE_TABLE, 8 * LINES, 8 * LINES);
	check_within_a_step(evicted_after(&reuse, false), LINES);
	check_within_a_step(evicted_after(&reuse, true), LINES / 2);
}

TEST(a_smaller_sample_and_an_older_one_say_the_same)
{
	struct reuse reuse = ring(4 * LINES, 1 << 20);
	const uint64_t before = evicted_after(&reuse, false);

	reuse_thin(&reuse);
	check_within_a_step(evicted_after(&reuse, false), before);
	CHECK(reuse.sampled < 0.51);
	reuse.until = 5;
	reuse_fade(&reuse, 5);
	check_within_a_step(evicted_after(&reuse, false), before);
}

TEST(ages_are_those_of_lines_not_seen_since)
{
	struct reuse reuse = { .span = 1000, .sampled = 1 };

	CHECK_EQUAL(reuse_age(&reuse, LINE_DATA, 0, 7), NEVER_ACCESSED);
	for (uint32_t i = 0; i < 900; i++)
		reuse_saw(&reuse, LINE_DATA, i % 9 ? 3 : 5000, 3);
	for (uint32_t i = 0; i < 4; i++)
		reuse_saw(&reuse, LINE_TABLE, 70, 70);
	CHECK_EQUAL(reuse_age(&reuse, LINE_DATA, 0, 7), NEVER_ACCESSED);
	reuse_fade(&reuse, 1000);
	for (uint32_t i = 0; i < DRAWS; i++) {
		const uint64_t age = reuse_age(&reuse, LINE_DATA, 100, scatter(i));

		CHECK(age >= 4864 && age < 5120);
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

TEST(the_last_level_has_what_its_age_allows)
{
	const struct reuse fits = ring(LINES / 2, 1 << 20), four = ring(4 * LINES, 1 << 20);
	struct rig *rig = in_ring(&fits, 0);

	CHECK_EQUAL(there(rig), 1000);
	drop_rig(rig);
	rig = in_ring(&four, 0);
	CHECK_EQUAL(there(rig), 0);
	drop_rig(rig);
	rig = in_ring(&four, 100);
	CHECK(about(there(rig), 210, 80));
	drop_rig(rig);
	rig = in_ring(&four, 50);
	CHECK(about(there(rig), 95, 60));
	drop_rig(rig);
}

TEST(tables_never_read_before_are_in_memory)
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
TEST(neighbours_brought_along_are_no_younger)
{
	const struct reuse four = ring(4 * LINES, 1 << 20);
	struct rig *rig = in_ring(&four, 0);
	struct last_level *level = &rig->core.memory.l3;
	struct line_access access = { LINE_DATA, AGE_UNKNOWN, true };

	last_level_begin(level, 0, 0, 0, CYCLES(10));
	CHECK(!last_level_has(level, 77, 0, access));
	CHECK(!last_level_has(level, 77, CYCLES(10), access));
	access.paired = false;
	CHECK(!last_level_has(level, 77, CYCLES(20), access));
	CHECK(last_level_has(level, 77, CYCLES(30), access));
	drop_rig(rig);
}

CHECK_MAIN
