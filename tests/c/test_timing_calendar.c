/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Servers whose time is cut into slots. */
#include "timing.h"

#include <string.h>

static struct calendar calendar, other;

static ticks work_of(const struct calendar *of)
{
	ticks sum = 0;

	for (uint32_t i = 0; i < CALENDAR_SLOTS; i++)
		sum += of->used[i];
	return sum;
}

TEST(an_idle_server_starts_at_once)
{
	calendar_init(&calendar, 1);
	CHECK_EQUAL(calendar_take(&calendar, 1000, 77), 1077);
	/* Over several slots. */
	CHECK_EQUAL(calendar_take(&calendar, 10 * SLOT + 5, 3 * SLOT + 9),
		    13 * SLOT + 14);
	CHECK_EQUAL(calendar_take(&calendar, 20 * SLOT, 0), 20 * SLOT);
}

/* Any number of servers: none does more in a slot than a slot. */
TEST(servers_do_what_they_can)
{
	for (uint32_t servers = 1; servers <= 16; servers++) {
		ticks total = 0, last = 0;

		calendar_init(&calendar, servers);
		for (int i = 0; i < 1000; i++) {
			ticks start = random_number() % (20 * SLOT);
			ticks work = random_number() % (2 * SLOT);
			ticks end = calendar_take(&calendar, start, work);

			CHECK(end >= start + work);
			total += work;
			if (end > last)
				last = end;
		}
		for (uint32_t i = 0; i < CALENDAR_SLOTS; i++)
			CHECK(calendar.used[i] <= servers * SLOT);
		CHECK_EQUAL(work_of(&calendar), total);
		CHECK((last / SLOT + 1) * servers * SLOT >= total);
	}
}

TEST(a_request_waits_for_a_server)
{
	for (uint32_t servers = 1; servers <= 4; servers++) {
		calendar_init(&calendar, servers);
		/* All are busy for three slots; one more comes after them. */
		for (uint32_t i = 0; i < servers; i++)
			CHECK_EQUAL(calendar_take(&calendar, 0, 3 * SLOT), 3 * SLOT);
		CHECK_EQUAL(calendar_take(&calendar, SLOT / 2, 100), 3 * SLOT + 100);
	}
}

TEST(earlier_requests_fit_in_before_later_ones)
{
	calendar_init(&calendar, 1);
	CHECK_EQUAL(calendar_take(&calendar, 10 * SLOT, SLOT), 11 * SLOT);
	CHECK_EQUAL(calendar_take(&calendar, 2 * SLOT, 500), 2 * SLOT + 500);
	/* What does not fit continues behind. */
	CHECK_EQUAL(calendar_take(&calendar, 9 * SLOT, SLOT + 50), 11 * SLOT + 50);
}

#define REQUESTS 500

TEST(order_changes_no_total)
{
	static struct { ticks start, work; } requests[REQUESTS];

	for (int i = 0; i < REQUESTS; i++) {
		requests[i].start = random_number() % 300 * SLOT;
		requests[i].work = random_number() % (2 * SLOT);
	}
	calendar_init(&calendar, 1);
	calendar_init(&other, 1);
	for (int i = 0; i < REQUESTS; i++) {
		calendar_take(&calendar, requests[i].start, requests[i].work);
		calendar_take(&other, requests[REQUESTS - 1 - i].start,
			      requests[REQUESTS - 1 - i].work);
	}
	/* The one server is busy in the same slots. */
	CHECK(memcmp(calendar.used, other.used, sizeof(other.used)) == 0);
	CHECK(work_of(&calendar) > 0);
}

TEST(the_past_is_forgotten)
{
	calendar_init(&calendar, 1);
	calendar_take(&calendar, 0, 100 * SLOT);
	calendar_advance(&calendar, 50 * SLOT + 7);
	CHECK_EQUAL(work_of(&calendar), 50 * SLOT);
	/* Nothing starts before. */
	CHECK_EQUAL(calendar_take(&calendar, 0, 10), 100 * SLOT + 10);
	/* Time does not go back. */
	calendar_advance(&calendar, 0);
	CHECK_EQUAL(work_of(&calendar), 50 * SLOT + 10);
	calendar_advance(&calendar, 100000 * SLOT);
	CHECK_EQUAL(work_of(&calendar), 0);
	CHECK_EQUAL(calendar_take(&calendar, 100000 * SLOT + 3, 10),
		    100000 * SLOT + 13);
}

/* As time passes, slots are used again and again. */
TEST(slots_come_round)
{
	calendar_init(&calendar, 2);
	for (uint64_t slot = 0; slot < 5 * CALENDAR_SLOTS; slot++) {
		calendar_advance(&calendar, slot * SLOT);
		for (int i = 0; i < 2; i++)
			CHECK_EQUAL(calendar_take(&calendar, slot * SLOT, SLOT),
				    (slot + 1) * SLOT);
	}
	CHECK_EQUAL(work_of(&calendar), 2 * SLOT);
}

TEST(beyond_the_last_slot_all_is_free)
{
	const ticks beyond = CALENDAR_SLOTS * SLOT;

	calendar_init(&calendar, 1);
	for (int i = 0; i < 3; i++)
		CHECK_EQUAL(calendar_take(&calendar, beyond + 5, 7 * SLOT),
			    beyond + 5 + 7 * SLOT);
	CHECK_EQUAL(work_of(&calendar), 0);
}

CHECK_MAIN
