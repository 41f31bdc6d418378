/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Do records of several buffers come out in the order in which things happened? */
#include "check.h"

#include <linux/perf_event.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "rounds.h"
#include "parse.h"

enum { WORDS = 6, SAMPLE_BYTES = 8 * WORDS };

/* A sample with this time, and a mark as its instruction. */
static void put(struct rounds *rounds, uint64_t time_ns, uint64_t mark)
{
	const uint64_t words[WORDS] = { 0, 1, mark, 0, time_ns, 0 };
	struct perf_event_header header = {
		.type = PERF_RECORD_SAMPLE, .size = SAMPLE_BYTES,
	};
	unsigned char *room = rounds_room(rounds, SAMPLE_BYTES);

	CHECK(room != NULL);
	if (!room)
		return;
	memcpy(room, words, sizeof(words));
	memcpy(room, &header, sizeof(header));
	CHECK_EQUAL(rounds_add(rounds, SAMPLE_BYTES, 0), 0);
}

struct seen {
	uint64_t times[4000], marks[4000];
	size_t count;
};

static void see(const void *bytes, size_t size, void *context)
{
	struct seen *seen = context;
	struct record record;

	CHECK_EQUAL(record_parse(bytes, size, 0, &record), 0);
	seen->times[seen->count] = record.time_ns;
	seen->marks[seen->count++] = record.sample.ip;
}

static void nothing_is_used_that_something_older_may_follow(void)
{
	struct rounds rounds = { 0 };
	struct seen seen = { .count = 0 };

	put(&rounds, 100, 1);
	put(&rounds, 50, 2);
	rounds_flush(&rounds, 0, see, &seen);
	CHECK_EQUAL(seen.count, 0);
	/* Older than the newest of the first round, but fetched in the second. */
	put(&rounds, 70, 3);
	put(&rounds, 200, 4);
	rounds_flush(&rounds, 0, see, &seen);
	CHECK_EQUAL(seen.count, 3);
	CHECK_EQUAL(seen.marks[0], 2);
	CHECK_EQUAL(seen.marks[1], 3);
	CHECK_EQUAL(seen.marks[2], 1);
	rounds_flush(&rounds, 1, see, &seen);
	CHECK_EQUAL(seen.count, 4);
	CHECK_EQUAL(seen.marks[3], 4);
	rounds_free(&rounds);
}

static void many_rounds_of_two_buffers(void)
{
	struct rounds rounds = { 0 };
	static struct seen seen;
	uint64_t time_ns = 1000, state = 3;

	for (int i = 0; i < 100; i++) {
		/* One buffer is fetched before the other: what it gets in between comes later. */
		for (uint64_t n = 0; n < 20; n++)
			put(&rounds, time_ns + 10 * n, 0);
		for (uint64_t n = 0; n < 20; n++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			put(&rounds, time_ns + 10 * n + (state >> 61), 1);
		}
		time_ns += 200;
		rounds_flush(&rounds, i == 99, see, &seen);
	}
	CHECK_EQUAL(seen.count, 4000);
	for (size_t i = 1; i < seen.count; i++)
		CHECK(seen.times[i - 1] <= seen.times[i]);
	rounds_free(&rounds);
}

static void garbage_ends_a_buffer_and_no_more(void)
{
	struct rounds rounds = { 0 };
	struct seen seen = { .count = 0 };
	unsigned char *room;

	put(&rounds, 5, 1);
	room = rounds_room(&rounds, 100);
	CHECK(room != NULL);
	memset(room, 0xff, 100);
	CHECK_EQUAL(rounds_add(&rounds, 100, 0), 100);
	put(&rounds, 6, 2);
	rounds_flush(&rounds, 1, see, &seen);
	CHECK_EQUAL(seen.count, 2);
	CHECK_EQUAL(seen.marks[1], 2);
	rounds_free(&rounds);
}

static const struct check_test tests[] = {
	{ "nothing is used that something older may follow",
	  nothing_is_used_that_something_older_may_follow },
	{ "many rounds of two buffers", many_rounds_of_two_buffers },
	{ "garbage ends what is read of a buffer, and no more", garbage_ends_a_buffer_and_no_more },
};

CHECK_MAIN(tests)
