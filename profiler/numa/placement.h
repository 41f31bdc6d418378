/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which thread accesses memory for which page, and which one touched it first?
 *
 * Each thread has private caches, as if it had its own core: a filter in place of the first
 * level, a second level, and its share of the last level, all LRU.  Their misses are DRAM
 * accesses, counted per base page, thread and interval of time.  Not modelled: prefetchers,
 * shared caches, transfers between caches, write-backs.
 *
 * No Valgrind and no files here, so a test can drive it.
 */
#ifndef TLBCOST_PLACEMENT_H
#define TLBCOST_PLACEMENT_H

#include "../timing/cache.h"

#define PLACEMENT_INTERVALS 8u
#define PLACEMENT_FILTER_LINES 512u	/* 32 KiB of lines */

struct placement_config {
	uint32_t base_shift;			/* log2 of a base page */
	uint32_t l2_bytes, l2_ways;		/* cache_valid() */
	uint32_t l3_bytes, l3_ways;		/* the share; bytes 0: none */
	size_t most_counts, most_touches;	/* more than these: `failed` */
};

struct placement_thread {
	uint32_t number;			/* 1 to 65535 */
	/* Line of each slot, times two, plus one if it was written. */
	uint64_t filter[PLACEMENT_FILTER_LINES];
	struct cache l2, l3;
};

/* DRAM accesses of one thread to one base page. */
struct placement_count {
	uint64_t key;	/* page << 16 | thread; 0: free */
	uint32_t accesses[PLACEMENT_INTERVALS];
	uint8_t written;	/* bit i: the page was written in interval i */
};

/* What kind of memory a page was when it was touched first. */
enum placement_kind {
	PLACEMENT_HUGE,		/* anonymous, in a region that a huge page can hold */
	PLACEMENT_ANONYMOUS,	/* anonymous, its mapping is smaller than that */
	PLACEMENT_OTHER,	/* a file, or shared */
	PLACEMENT_KINDS
};

/* The first touch of a base page. */
struct placement_touch {
	uint64_t page;
	uint16_t thread;
	uint16_t kind;
};

struct placement {
	/* Returns zeroed memory, or NULL. */
	void *(*allocate)(size_t bytes);
	void (*release)(void *memory);
	struct placement_config config;

	bool failed;			/* counts are too low */
	uint32_t interval;		/* the interval that accesses are counted in */
	/* Lookups while counting that missed the second level: of data, and of
	   last-level page-table entries on base pages. */
	uint64_t l2_misses, walk_l2_misses;

	/* In the order in which they happened. */
	struct placement_touch *touches;
	size_t touch_count, touch_capacity;

	/* Hash table; free entries have key 0. */
	struct placement_count *counts;
	size_t capacity, used;
	struct placement_count *last;	/* the last entry found; may be NULL */
};

/*
 * Start with nothing counted; the callbacks and the configuration are set by
 * the caller.  Without memory, `failed` is set, and nothing is counted.
 */
void placement_init(struct placement *placement);

/* Forget everything, as after fork() or exec(). */
void placement_reset(struct placement *placement);

/* A thread with empty caches; NULL if there is no memory. */
struct placement_thread *placement_thread_new(const struct placement *placement,
					      uint32_t number);
void placement_thread_free(const struct placement *placement,
			   struct placement_thread *thread);

/*
 * The thread accesses `size` bytes; with `counting`, DRAM accesses are counted, otherwise only
 * the caches change.
 */
void placement_access(struct placement *placement,
		      struct placement_thread *thread, uint64_t address,
		      uint32_t size, bool store, bool counting);

/* A page walk of the thread reads the last-level entry of this address. */
void placement_walk(struct placement *placement,
		    struct placement_thread *thread, uint64_t address,
		    bool counting);

/* The thread is the first to touch the base page that holds `address`. */
void placement_touched(struct placement *placement, uint32_t thread,
		       uint64_t address, enum placement_kind kind);

/*
 * The current interval is over.  If it was the last one available, pairs are merged; returns
 * true then: intervals are twice as long from now on.
 */
bool placement_next_interval(struct placement *placement);

#endif
