/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which thread accesses memory for which page: caches, counts, intervals, limits. */
#include "timing.h"
#include "numa/placement.h"

static size_t allocations_left = SIZE_MAX;

static void *allocate(size_t bytes)
{
	if (allocations_left == 0)
		return NULL;
	allocations_left--;
	return calloc(1, bytes);
}

/* 64 KiB of L2, and as much as a share of the L3 if asked for. */
static struct placement make(uint32_t l3_bytes)
{
	struct placement placement = {
		.allocate = allocate,
		.release = free,
		.config = {
			.base_shift = BASE_SHIFT,
			.l2_bytes = 64 << 10, .l2_ways = 16,
			.l3_bytes = l3_bytes, .l3_ways = 16,
			.most_counts = 1 << 20, .most_touches = 1 << 20,
		},
	};

	placement_init(&placement);
	return placement;
}

static void drop(struct placement *placement)
{
	free(placement->counts);
	free(placement->touches);
}

/* What a thread counted for a page; of all intervals together. */
static uint64_t accesses(const struct placement *placement, uint32_t thread,
			 uint64_t page)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < placement->capacity; i++)
		if (placement->counts[i].key == (page << 16 | thread))
			for (uint32_t j = 0; j < PLACEMENT_INTERVALS; j++)
				sum += placement->counts[i].accesses[j];
	return sum;
}

static uint8_t written(const struct placement *placement, uint32_t thread,
		       uint64_t page)
{
	for (size_t i = 0; i < placement->capacity; i++)
		if (placement->counts[i].key == (page << 16 | thread))
			return placement->counts[i].written;
	return 0;
}

static void read_pages(struct placement *placement, struct placement_thread *thread,
		       uint64_t first, uint64_t pages)
{
	for (uint64_t line = 0; line < pages * PAGE_LINES; line++)
		placement_access(placement, thread,
				 (first << BASE_SHIFT) + line * 64, 8, false, true);
}

TEST(what_the_caches_hold_is_not_counted_again)
{
	struct placement placement = make(0);
	struct placement_thread *thread = placement_thread_new(&placement, 1);

	/* 32 KiB fit: each line comes from memory once, however often it is read. */
	for (int round = 0; round < 3; round++)
		read_pages(&placement, thread, 100, 8);
	CHECK_EQUAL(accesses(&placement, 1, 100), PAGE_LINES);
	CHECK_EQUAL(accesses(&placement, 1, 107), PAGE_LINES);
	CHECK_EQUAL(placement.l2_misses, 8 * PAGE_LINES);
	/* 256 KiB do not: by LRU none is there when it is read again. */
	for (int round = 0; round < 3; round++)
		read_pages(&placement, thread, 200, 64);
	CHECK_EQUAL(accesses(&placement, 1, 200), 3 * PAGE_LINES);
	CHECK_EQUAL(accesses(&placement, 1, 263), 3 * PAGE_LINES);
	placement_thread_free(&placement, thread);
	drop(&placement);
}

TEST(the_share_of_the_l3_holds_what_the_l2_does_not)
{
	struct placement placement = make(512 << 10);
	struct placement_thread *thread = placement_thread_new(&placement, 1);

	for (int round = 0; round < 3; round++)
		read_pages(&placement, thread, 200, 64);
	CHECK_EQUAL(accesses(&placement, 1, 200), PAGE_LINES);
	CHECK_EQUAL(placement.l2_misses, 3 * 64 * PAGE_LINES);
	placement_thread_free(&placement, thread);
	drop(&placement);
}

TEST(each_thread_has_caches_of_its_own)
{
	struct placement placement = make(0);
	struct placement_thread *a = placement_thread_new(&placement, 1);
	struct placement_thread *b = placement_thread_new(&placement, 2);

	read_pages(&placement, a, 5, 1);
	read_pages(&placement, b, 5, 1);
	CHECK_EQUAL(accesses(&placement, 1, 5), PAGE_LINES);
	CHECK_EQUAL(accesses(&placement, 2, 5), PAGE_LINES);
	CHECK_EQUAL(placement.used, 2);
	placement_thread_free(&placement, a);
	placement_thread_free(&placement, b);
	drop(&placement);
}

TEST(without_counting_caches_fill_all_the_same)
{
	struct placement placement = make(0);
	struct placement_thread *thread = placement_thread_new(&placement, 1);

	placement_access(&placement, thread, 0x5000, 8, false, false);
	CHECK_EQUAL(placement.used, 0);
	CHECK_EQUAL(placement.l2_misses, 0);
	placement_access(&placement, thread, 0x5000, 8, false, true);
	CHECK_EQUAL(accesses(&placement, 1, 5), 0);
	/* One that crosses two lines, and a page. */
	placement_access(&placement, thread, 0x6ffc, 8, false, true);
	CHECK_EQUAL(accesses(&placement, 1, 6), 1);
	CHECK_EQUAL(accesses(&placement, 1, 7), 1);
	placement_thread_free(&placement, thread);
	drop(&placement);
}

TEST(a_page_is_written_in_the_interval_of_its_stores)
{
	struct placement placement = make(0);
	struct placement_thread *thread = placement_thread_new(&placement, 3);

	placement_access(&placement, thread, 0x5000, 8, false, true);
	CHECK_EQUAL(written(&placement, 3, 5), 0);
	placement_next_interval(&placement);
	/* The line is in the cache: the store goes to no memory, but it is one. */
	placement_access(&placement, thread, 0x5000, 8, true, true);
	CHECK_EQUAL(written(&placement, 3, 5), 2);
	CHECK_EQUAL(accesses(&placement, 3, 5), 1);
	placement_thread_free(&placement, thread);
	drop(&placement);
}

TEST(page_walks_miss_in_the_same_caches)
{
	struct placement placement = make(0);
	struct placement_thread *thread = placement_thread_new(&placement, 1);

	/* Eight entries are in a line. */
	for (uint64_t page = 0; page < 16; page++)
		placement_walk(&placement, thread, page << BASE_SHIFT, true);
	CHECK_EQUAL(placement.walk_l2_misses, 2);
	CHECK_EQUAL(placement.l2_misses, 2);
	CHECK_EQUAL(placement.used, 0);
	/* Data take the place of the entries. */
	for (int round = 0; round < 2; round++)
		read_pages(&placement, thread, 100, 64);
	placement_walk(&placement, thread, 0, true);
	CHECK_EQUAL(placement.walk_l2_misses, 3);
	placement_thread_free(&placement, thread);
	drop(&placement);
}

TEST(intervals_fold_when_there_are_no_more)
{
	struct placement placement = make(0);
	struct placement_thread *thread = placement_thread_new(&placement, 1);
	const struct placement_count *count;

	for (uint64_t i = 0; i < PLACEMENT_INTERVALS; i++) {
		CHECK_EQUAL(placement.interval, i);
		/* i + 1 lines of one page in interval i; written in the odd ones. */
		for (uint64_t line = 0; line <= i; line++)
			placement_access(&placement, thread,
					 0x5000 + (i * 8 + line) % PAGE_LINES * 64,
					 8, i % 2, true);
		CHECK(placement_next_interval(&placement) ==
		      (i + 1 == PLACEMENT_INTERVALS));
	}
	CHECK_EQUAL(placement.interval, PLACEMENT_INTERVALS / 2);
	count = placement.last;
	CHECK_EQUAL(count->accesses[0], 1 + 2);
	CHECK_EQUAL(count->accesses[3], 7 + 8);
	CHECK_EQUAL(count->accesses[4], 0);
	CHECK_EQUAL(count->written, 0xf);
	placement_thread_free(&placement, thread);
	drop(&placement);
}

TEST(first_touches_are_kept_in_their_order)
{
	struct placement placement = make(0);

	for (uint64_t i = 0; i < 10000; i++)
		placement_touched(&placement, (uint32_t)(i % 7) + 1, (10000 - i) << BASE_SHIFT,
				  PLACEMENT_HUGE);
	CHECK_EQUAL(placement.touch_count, 10000);
	CHECK_EQUAL(placement.touches[0].page, 10000);
	CHECK_EQUAL(placement.touches[9999].page, 1);
	CHECK_EQUAL(placement.touches[9999].thread, 9999 % 7 + 1);
	CHECK(!placement.failed);
	placement_reset(&placement);
	CHECK_EQUAL(placement.touch_count, 0);
	drop(&placement);
}

TEST(what_falls_short_says_so)
{
	struct placement placement = make(0);
	struct placement_thread *thread = placement_thread_new(&placement, 1);

	placement.config.most_counts = 8;
	read_pages(&placement, thread, 0, 8);
	CHECK(!placement.failed);
	read_pages(&placement, thread, 8, 1);
	CHECK(placement.failed);
	CHECK_EQUAL(placement.used, 8);
	placement_reset(&placement);
	CHECK(!placement.failed);
	/* No memory for a larger table. */
	placement.config.most_counts = 1 << 20;
	allocations_left = 0;
	read_pages(&placement, thread, 0, 1 << 14);
	CHECK(placement.failed);
	CHECK(!placement_thread_new(&placement, 2));
	allocations_left = SIZE_MAX;
	placement_thread_free(&placement, thread);
	drop(&placement);
}

CHECK_MAIN
