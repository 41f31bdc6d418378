/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which lines does a data cache hold, and when do they arrive? */
#ifndef TLBCOST_TIMING_CACHE_H
#define TLBCOST_TIMING_CACHE_H

#include "config.h"

/* Hours of program time. */
#define CACHE_TIME_BITS 52
#define CACHE_TIME (UINT64_MAX >> (64 - CACHE_TIME_BITS))

/* One line; a set is in order of last use. */
struct cache_line {
	uint64_t line;		/* address >> LINE_SHIFT; CACHE_NO_LINE: none */
	ticks arrival : CACHE_TIME_BITS;
	ticks windows : 11;	/* in which it was accessed before; only of the last level */
	ticks changed : 1;	/* it differs from memory */
};

#define CACHE_NO_LINE UINT64_MAX
#define CACHE_MOST_WINDOWS 2047u

struct cache {
	struct cache_line *lines;	/* sets x ways */
	uint32_t sets, ways;		/* sets 0: there is no such cache */
};

/* Lines that a cache of this size has: what cache_init() needs. */
static inline size_t cache_lines(uint32_t bytes)
{
	return bytes >> LINE_SHIFT;
}

/* Is this a size that a cache can have? */
bool cache_valid(uint32_t bytes, uint32_t ways);

/* The largest valid size of at most this many bytes, with 16 to 31 ways if possible. */
uint32_t cache_size_within(uint32_t bytes, uint32_t *ways);

/* Make an empty cache of a valid size in the caller's memory. */
void cache_init(struct cache *cache, uint32_t bytes, uint32_t ways,
		struct cache_line *lines);

/* The lines of the set that a line belongs to. */
static inline struct cache_line *cache_set(const struct cache *cache, uint64_t line)
{
	return cache->lines + (line & (cache->sets - 1)) * cache->ways;
}

/* cache_find() of what is not the most recently used line of its set. */
struct cache_line *cache_find_again(struct cache *cache, uint64_t line);

/*
 * Look a line up, and make it the most recently used of its set.  Returns it,
 * or NULL if it is not there.  The pointer is good until the next call.
 */
static inline struct cache_line *cache_find(struct cache *cache, uint64_t line)
{
	struct cache_line *set = cache_set(cache, line);

	return set->line == line ? set : cache_find_again(cache, line);
}

/* Insert a line that is not there; returns the least recently used one, which it replaces. */
struct cache_line cache_insert(struct cache *cache, uint64_t line, ticks arrival);

/* The same for one that may never be used: half of the set counts as used later. */
struct cache_line cache_insert_late(struct cache *cache, uint64_t line,
				    ticks arrival);

#endif
