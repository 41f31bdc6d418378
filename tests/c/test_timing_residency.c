/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long do lines stay in a last-level cache that others share? */
#include "timing.h"

#define KEPT 1000000u
#define DRAWS 4096u
#define L3 CYCLES(50)
#define MEMORY CYCLES(200)

static struct timing_config shared(void)
{
	struct timing_config config = plain_config();

	config.l3_bytes = 16 << 20;
	config.l3_half_life_cycles[0] = KEPT;
	return config;
}

/* Of DRAWS lines of this age, how many are there? */
static uint32_t left(const struct residency *residency, ticks age)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < DRAWS; i++)
		count += residency_left(residency, LINE_DATA, age, i);
	return count;
}

TEST(half_are_left_after_the_calibrated_time)
{
	struct timing_config config = shared();
	struct residency residency;
	struct sightings none = { .windows = 0 };
	uint32_t before = DRAWS;

	residency_begin(&residency, &config, 0, 0, &none);
	CHECK_EQUAL(left(&residency, 0), DRAWS);
	CHECK_EQUAL(left(&residency, CYCLES(KEPT)), DRAWS / 2);
	/* 2^-(1/4) = 0.84, 2^-4 = 0.06. */
	CHECK(left(&residency, CYCLES(KEPT / 2)) > DRAWS * 8 / 10);
	CHECK(left(&residency, CYCLES(KEPT / 2)) < DRAWS * 9 / 10);
	CHECK(left(&residency, CYCLES(2 * KEPT)) > DRAWS * 4 / 100);
	CHECK(left(&residency, CYCLES(2 * KEPT)) < DRAWS * 8 / 100);
	for (ticks age = 0; age < CYCLES(4 * KEPT); age += CYCLES(KEPT / 10)) {
		CHECK(left(&residency, age) <= before);
		before = left(&residency, age);
	}
	CHECK_EQUAL(before, 0);
}

/* The half-life after a million cycles in which this many lines of this age were accessed. */
static ticks half_with(uint64_t lines, ticks age)
{
	struct timing_config config = shared();
	struct residency residency;
	struct sightings seen = { .windows = 0 };

	for (uint64_t i = 0; i < lines; i++)
		residency_saw(&seen, age);
	residency_begin(&residency, &config, CYCLES(KEPT), 0, &seen);
	return residency.half_life;
}

TEST(the_programs_own_lines_shorten_it)
{
	const uint64_t lines = (16 << 20) >> LINE_SHIFT;

	CHECK(about(half_with(10, UINT64_MAX), CYCLES(KEPT) * 99 / 100, CYCLES(KEPT) / 50));
	/* What fills the cache in KEPT cycles halves it; four times as much leaves a fifth. */
	CHECK(about(half_with(lines, UINT64_MAX), CYCLES(KEPT) * 49 / 100, CYCLES(KEPT) / 50));
	CHECK(about(half_with(4 * lines, UINT64_MAX), CYCLES(KEPT) * 19 / 100, CYCLES(KEPT) / 50));
}

/* Lines that are wanted again and again need room once. */
TEST(lines_wanted_often_take_little_room)
{
	const uint64_t lines = (16 << 20) >> LINE_SHIFT;

	CHECK(half_with(4 * lines, CYCLES(KEPT / 1000)) > CYCLES(KEPT) * 9 / 10);
	/* A ring that fits takes its part and no more, one that does not takes all. */
	CHECK(half_with(4 * lines, CYCLES(KEPT / 16)) > CYCLES(KEPT) / 2);
	CHECK(half_with(4 * lines, CYCLES(KEPT) / 2) < CYCLES(KEPT) / 4);
}

/* Lines accessed at random come back after the time in which as many are accessed, on average. */
TEST(unseen_lines_have_the_ages_of_random_ones)
{
	struct timing_config config = shared();
	struct residency residency;
	struct sightings seen = { .asked = 70 };
	ticks sum = 0;

	residency_begin(&residency, &config, CYCLES(7000), 30, &seen);
	CHECK_EQUAL(residency.unseen, CYCLES(3000));
	residency.begin = CYCLES(100);
	for (uint32_t i = 0; i < DRAWS; i++)
		sum += residency_age(&residency, LINE_DATA, CYCLES(150), 0, i);
	/* They were not wanted since the window began. */
	CHECK(about(sum / DRAWS, CYCLES(2950), CYCLES(200)));
}

/* What is seen in a second window is a part of all that was seen in a first. */
TEST(how_often_unseen_lines_are_wanted_is_estimated)
{
	struct timing_config config = shared();
	struct residency residency;
	/* 1,000 lines in one of ten windows, 100 in two: if wanted alike, 0.2 times in all of them. */
	struct sightings seen = {
		.windows = 10, .asked = 1200, .first = 1100, .second = 100,
	};

	residency_begin(&residency, &config, CYCLES(10000), 1 << 20, &seen);
	CHECK(about(residency.unseen, CYCLES(49700), CYCLES(100)));
	/* Of lines that never come back there is no end. */
	seen = (struct sightings){ .windows = 10, .asked = 100000, .first = 100000 };
	residency_begin(&residency, &config, CYCLES(10000), 1 << 20, &seen);
	CHECK(residency.unseen > CYCLES(10) * KEPT);
}

/* Neighbours come and go: each measured time is that of as many windows, whichever of them are left. */
TEST(windows_take_the_measured_times_in_turn)
{
	struct timing_config config = shared();
	uint32_t longer[3] = { 0, 0, 0 };

	config.l3_half_life_cycles[1] = 3 * KEPT;
	for (uint64_t i = 0; i < 256; i++) {
		struct sightings seen = { .windows = i };
		struct residency residency;

		residency_begin(&residency, &config, 0, 0, &seen);
		CHECK(residency.half_life == CYCLES(KEPT) || residency.half_life == CYCLES(3 * KEPT));
		for (uint64_t step = 0; step < 3; step++)
			if (i % (UINT64_C(1) << step) == 0)
				longer[step] += residency.half_life == CYCLES(3 * KEPT);
	}
	CHECK(about(longer[0], 126, 4));
	CHECK(about(longer[1], 62, 4));
	CHECK(about(longer[2], 30, 4));
}

/* A rig in a window that begins at the program's time `now`. */
static struct rig *in_window(const struct timing_config *config, ticks now,
			     ticks per_reference)
{
	struct rig *rig = make_rig(config, false);

	last_level_begin(&rig->core.memory.l3, 0, now, 0, per_reference);
	return rig;
}

/* Lines 1000 apart, so that none is another one's neighbour, and each is in no nearer cache. */
static uint32_t tables_there(struct rig *rig, uint64_t age)
{
	uint32_t count = 0;

	for (uint64_t i = 1; i <= 1000; i++) {
		ticks start = quiet(rig);
		ticks time = memory_read_table(&rig->core.memory,
					       (age + 1) << 32 | i * 1000, start, age) - start;

		CHECK(time == L3 || time == MEMORY);
		count += time == L3;
	}
	return count;
}

TEST(tables_are_there_as_long_as_their_age_allows)
{
	struct timing_config config = shared();
	struct rig *rig = in_window(&config, 0, CYCLES(10));

	CHECK_EQUAL(tables_there(rig, 0), 1000);
	CHECK(tables_there(rig, KEPT / 10) > 440);
	CHECK(tables_there(rig, KEPT / 10) < 560);
	CHECK_EQUAL(tables_there(rig, KEPT), 0);
	/* Half as long between references, half as old. */
	last_level_begin(&rig->core.memory.l3, 0, 0, 0, CYCLES(1));
	CHECK_EQUAL(tables_there(rig, KEPT / 100), 1000);
	drop_rig(rig);
}

/* Of a hundred lines from this one on, how many come before memory could bring them? */
static uint32_t data_there(struct rig *rig, uint64_t first, ticks start)
{
	uint32_t count = 0;

	for (uint64_t i = 0; i < 100; i++, start += CYCLES(1000))
		count += memory_read(&rig->core.memory, (first + i) * 1000, start,
				     LINE_DATA) < start + MEMORY;
	return count;
}

/* What was seen ages while nothing is modelled. */
TEST(data_age_between_windows)
{
	struct timing_config config = shared();
	struct rig *rig = in_window(&config, 0, CYCLES(1));
	struct memory *memory = &rig->core.memory;
	ticks time = 0;

	for (uint64_t i = 0; i < 8192; i++, time += CYCLES(20))
		memory_read(memory, i * 1000, time, LINE_DATA);
	/* They have long left L2. */
	CHECK(data_there(rig, 0, time) > 85);
	time += CYCLES(100000);
	last_level_begin(&memory->l3, time, time + CYCLES(100) * KEPT, 0, CYCLES(1));
	CHECK_EQUAL(data_there(rig, 200, time), 0);
	drop_rig(rig);
}

/*
 * Windows are far apart.  A line that is wanted in each of them was wanted
 * between them too; one that was wanted in the first alone was not.
 */
TEST(lines_of_all_windows_are_young)
{
	struct timing_config config = shared();
	struct rig *rig = in_window(&config, 0, CYCLES(1));
	struct memory *memory = &rig->core.memory;
	uint64_t fresh = 1 << 20;
	uint32_t there = 0;
	ticks time = 0;

	last_level_begin(&memory->l3, 0, 0, UINT64_C(1) << 30, CYCLES(1));
	for (int window = 1; window <= 12; window++) {
		there = data_there(rig, 0, time);
		if (window == 1)
			CHECK_EQUAL(data_there(rig, 500, time), 0);
		time += CYCLES(200000);
		/* What no cache near the core keeps. */
		for (uint64_t i = 0; i < 8192; i++, time += CYCLES(20))
			memory_read(memory, fresh++ * 1000, time, LINE_DATA);
		last_level_begin(&memory->l3, time, time + (ticks)window * CYCLES(100) * KEPT,
			     0, CYCLES(1));
	}
	CHECK(there > 60);
	CHECK(data_there(rig, 500, time) < 30);
	drop_rig(rig);
}

/* Scattered base pages have a line of the host's table each; adjacent ones share one. */
TEST(a_walk_reads_entries_of_their_age)
{
	const struct walk_ages fresh = { { 0, 0 }, { 0, 0 } };
	const struct walk_ages old = { { KEPT, KEPT }, { KEPT, KEPT } };
	const struct walk_ages alone = { { KEPT, 0 }, { 0, 0 } };
	struct timing_config config = shared();

	config.host_shift = BASE_SHIFT;
	for (int apart = 0; apart <= 1; apart++) {
		struct rig *rig = in_window(&config, 0, CYCLES(10));
		struct translation *translation = &rig->core.translation;
		ticks start, took[3];

		translation->isolated_share = apart ? UINT64_C(1) << 32 : 0;
		/* The directories are cached from here on. */
		walk(rig, 0);
		for (int i = 0; i < 3; i++) {
			const struct walk_ages *const ages[] = { &fresh, &old, &alone };
			const uint64_t address = (uint64_t)(64 * (i + 1)) * BASE_PAGE;

			start = quiet(rig);
			translation_walked(translation, address, ages[i]);
			took[i] = translate(translation, address, start) - start;
		}
		CHECK_EQUAL(took[0], 2 * L3);
		CHECK_EQUAL(took[1], 2 * MEMORY);
		CHECK_EQUAL(took[2], apart ? L3 + MEMORY : 2 * L3);
		drop_rig(rig);
	}
}

CHECK_MAIN
