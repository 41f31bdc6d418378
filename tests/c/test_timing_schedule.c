/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When do windows open: one in each period, anywhere in it, and how do they thin out? */
#include "check.h"
#include "engine/schedule.h"

#include <stdlib.h>

#define ORIGIN 1000u
#define PERIOD 10000u
#define LENGTH 400u
#define MANY 4096u

static struct schedule started(void)
{
	struct schedule schedule;

	schedule_start(&schedule, ORIGIN, PERIOD, LENGTH);
	return schedule;
}

/* The first time of a period by its number. */
static uint64_t begin(const struct schedule *schedule, uint64_t number)
{
	return schedule->origin + number * schedule->period;
}

TEST(each_period_has_one_window)
{
	struct schedule schedule = started();
	uint64_t now = ORIGIN;

	for (uint64_t i = 0; i < MANY; i++) {
		now = schedule_next(&schedule, now);
		CHECK_EQUAL(schedule_number(&schedule), i);
		CHECK(now >= begin(&schedule, i));
		CHECK(now + LENGTH <= begin(&schedule, i + 1));
	}
}

/* Of what a window may begin at, each tenth is chosen about equally often. */
TEST(windows_are_anywhere_in_their_period)
{
	struct schedule schedule = started();
	unsigned tenths[10] = { 0 };
	uint64_t now = ORIGIN;

	for (uint64_t i = 0; i < MANY; i++) {
		now = schedule_next(&schedule, now);
		tenths[(now - begin(&schedule, i)) * 10 / (PERIOD - LENGTH + 1)]++;
	}
	for (int i = 0; i < 10; i++)
		CHECK(tenths[i] > MANY / 20 && tenths[i] < MANY / 5);
}

/* A window that lasted beyond its period costs those that it covered. */
TEST(what_has_passed_is_skipped)
{
	struct schedule schedule = started();
	const uint64_t now = begin(&schedule, 7) + PERIOD / 2;
	uint64_t next;

	schedule_next(&schedule, ORIGIN);
	next = schedule_next(&schedule, now);
	CHECK(next >= now);
	CHECK(schedule_number(&schedule) == 7 || schedule_number(&schedule) == 8);
	CHECK(next >= begin(&schedule, schedule_number(&schedule)));
}

/* A window may fill its period: then there is one place for it. */
TEST(a_window_may_fill_its_period)
{
	struct schedule schedule;

	schedule_start(&schedule, ORIGIN, LENGTH, LENGTH);
	for (uint64_t i = 0; i < 10; i++)
		CHECK_EQUAL(schedule_next(&schedule, ORIGIN + i * LENGTH),
			    ORIGIN + i * LENGTH);
}

/* After doubling, the windows that stay are one for each longer period, as are those to come. */
TEST(doubling_keeps_one_window_of_two)
{
	struct schedule schedule = started();
	uint64_t opens[64], numbers[64], remainder, now = ORIGIN, kept = 0;

	for (int i = 0; i < 64; i++) {
		opens[i] = now = schedule_next(&schedule, now);
		numbers[i] = schedule_number(&schedule);
	}
	remainder = schedule_double(&schedule);
	CHECK(remainder < 2);
	CHECK_EQUAL(schedule.period, 2 * PERIOD);
	for (int i = 0; i < 64; i++) {
		if (numbers[i] % 2 != remainder)
			continue;
		CHECK_EQUAL(numbers[i] / 2, kept);
		CHECK(opens[i] >= begin(&schedule, kept));
		CHECK(opens[i] < begin(&schedule, kept + 1));
		kept++;
	}
	CHECK_EQUAL(kept, 32);
	now = schedule_next(&schedule, now);
	CHECK_EQUAL(schedule_number(&schedule), 32);
	CHECK(now >= begin(&schedule, 32) && now < begin(&schedule, 33));
}

/* Which of two stays is chosen at random, too: no rhythm of the program's fits. */
TEST(either_of_two_may_stay)
{
	struct schedule schedule = started();
	uint64_t remainders = 0;

	for (int i = 0; i < 32; i++)
		remainders += schedule_double(&schedule);
	CHECK(remainders > 4 && remainders < 28);
}

TEST(runs_are_alike)
{
	struct schedule one = started(), other = started();
	uint64_t now = ORIGIN;

	for (int i = 0; i < 100; i++) {
		const uint64_t next = schedule_next(&one, now);

		CHECK_EQUAL(schedule_next(&other, now), next);
		now = next;
	}
}

CHECK_MAIN
