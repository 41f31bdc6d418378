/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Caches of lines against one that notes when each line was used. */
#include "timing.h"

static struct cache make(uint32_t bytes, uint32_t ways)
{
	struct cache cache;

	CHECK(cache_valid(bytes, ways));
	cache_init(&cache, bytes, ways,
		   malloc(cache_lines(bytes) * sizeof(struct cache_line)));
	return cache;
}

struct naive_line {
	uint64_t line, used;
};

/* Was the line there?  It is now; of its set the one used longest ago went. */
static bool naive_use(struct naive_line *set, uint32_t ways, uint64_t line,
		      uint64_t now)
{
	struct naive_line *oldest = set;

	for (uint32_t i = 0; i < ways; i++) {
		if (set[i].used && set[i].line == line) {
			set[i].used = now;
			return true;
		}
		if (set[i].used < oldest->used)
			oldest = &set[i];
	}
	*oldest = (struct naive_line){ line, now };
	return false;
}

static void compare_with_naive(uint32_t sets, uint32_t ways)
{
	struct cache cache = make((sets * ways) << LINE_SHIFT, ways);
	struct naive_line *naive = calloc((size_t)sets * ways, sizeof(*naive));
	uint64_t hits = 0, wrong = 0;

	for (uint64_t now = 1; now <= 50000; now++) {
		/* Twice what fits, the lower half thrice as often. */
		uint64_t fits = (uint64_t)sets * ways;
		uint64_t line = random_number() % (2 * fits + 1);
		const struct cache_line *found;
		bool there;

		if (now % 2)
			line %= fits;
		found = cache_find(&cache, line);
		there = naive_use(naive + line % sets * ways, ways, line, now);
		wrong += there != (found != NULL);
		if (found)
			wrong += found->line != line || found->arrival != line * 7;
		else
			cache_insert(&cache, line, line * 7);
		hits += there;
	}
	CHECK_EQUAL(wrong, 0);
	CHECK(hits > 5000 && hits < 50000);
	free(naive);
	free(cache.lines);
}

TEST(least_recently_used_gives_way)
{
	compare_with_naive(1, 1);
	compare_with_naive(64, 1);
	compare_with_naive(1, 16);
	compare_with_naive(64, 12);
	compare_with_naive(512, 8);
	compare_with_naive(2, 31);
}

/* Does a line outlast this many others that are put in its set after it? */
static bool outlasts(uint32_t ways, bool late, uint32_t others)
{
	struct cache cache = make(ways << LINE_SHIFT, ways);
	bool there;

	for (uint64_t line = 0; line < ways; line++)
		cache_insert(&cache, line, 0);
	if (late)
		cache_insert_late(&cache, 1000, 0);
	else
		cache_insert(&cache, 1000, 0);
	for (uint64_t line = 2000; line < 2000 + others; line++)
		cache_insert(&cache, line, 0);
	there = cache_find(&cache, 1000) != NULL;
	free(cache.lines);
	return there;
}

TEST(late_lines_leave_early)
{
	for (uint32_t ways = 2; ways <= 16; ways += 2) {
		CHECK(outlasts(ways, false, ways - 1));
		CHECK(!outlasts(ways, false, ways));
		CHECK(outlasts(ways, true, ways / 2 - 1));
		CHECK(!outlasts(ways, true, ways / 2));
	}
	CHECK(outlasts(1, true, 0));
	CHECK(!outlasts(1, true, 1));
}

TEST(late_lines_once_used_stay)
{
	struct cache cache = make(8 << LINE_SHIFT, 8);

	for (uint64_t line = 0; line < 8; line++)
		cache_insert(&cache, line, 0);
	cache_insert_late(&cache, 1000, 77);
	/* The oldest went, and no other. */
	CHECK(!cache_find(&cache, 0));
	for (uint64_t line = 1; line < 8; line++)
		CHECK(cache_find(&cache, line) != NULL);
	CHECK(cache_find(&cache, 1000) != NULL);
	for (uint64_t line = 2000; line < 2007; line++)
		cache_insert(&cache, line, 0);
	CHECK(cache_find(&cache, 1000) != NULL);
	CHECK_EQUAL(cache_find(&cache, 1000)->arrival, 77);
	free(cache.lines);
}

TEST(sizes_that_a_cache_can_have)
{
	CHECK(cache_valid(64, 1));
	CHECK(cache_valid(48 << 10, 12));
	CHECK(cache_valid(2 << 20, 16));
	CHECK(cache_valid(1280 << 10, 20));
	CHECK(!cache_valid(48 << 10, 8));	/* 96 sets */
	CHECK(!cache_valid(48 << 10, 0));
	CHECK(!cache_valid(63, 1));
	CHECK(!cache_valid(0, 0));
	CHECK(!cache_valid(4 << 6, 8));
}

TEST(largest_size_within)
{
	for (uint32_t i = 0; i < 20000; i++) {
		uint32_t bytes = (uint32_t)random_number() >> random_number() % 26;
		uint32_t ways = 0, size = cache_size_within(bytes, &ways);

		CHECK(size <= bytes);
		if (bytes < 64) {
			CHECK_EQUAL(size, 0);
			continue;
		}
		CHECK(cache_valid(size, ways));
		CHECK(bytes - size < 64 || bytes - size < bytes / 16);
		CHECK(ways <= 31 && (bytes < 16 * 64 || ways >= 16));
	}
}

TEST(known_sizes_within)
{
	uint32_t ways;

	CHECK_EQUAL(cache_size_within(32 << 20, &ways), 32 << 20);
	CHECK_EQUAL(ways, 16);
	CHECK_EQUAL(cache_size_within((30u << 20) + 1000, &ways), 30 << 20);
	CHECK_EQUAL(ways, 30);
	CHECK_EQUAL(cache_size_within(UINT32_MAX, &ways), 31u << 27);
	CHECK_EQUAL(ways, 31);
	CHECK_EQUAL(cache_size_within(0, &ways), 0);
}

TEST(no_cache_is_empty)
{
	struct cache cache;

	cache_init(&cache, 0, 0, NULL);
	CHECK_EQUAL(cache.sets, 0);
}

CHECK_MAIN
