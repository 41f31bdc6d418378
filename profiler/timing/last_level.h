/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Is a line that no nearer cache holds in the last-level cache, or in memory?
 *
 * The model sees windows of a run, which are too short to fill a last-level cache.  If the
 * half-life of lines there is calibrated, or the engine sees the whole run, a line's age decides
 * (residency.h).  Otherwise a line that the model has not seen yet is there with the probability
 * that the engine gives: the size of the cache over what the program has touched.
 */
#ifndef TLBCOST_TIMING_LAST_LEVEL_H
#define TLBCOST_TIMING_LAST_LEVEL_H

#include "cache.h"
#include "residency.h"

#define LAST_LEVEL_TABLES 16u
#define AGE_UNKNOWN UINT64_MAX

/* An access beyond L2. */
struct line_access {
	enum line_kind kind;
	uint64_t age;	/* in references; NEVER_ACCESSED: not before; or AGE_UNKNOWN */
	bool paired;	/* only fetched with its pair, not accessed */
};

/* The last-level cache as one core sees it. */
struct last_level {
	const struct timing_config *config;
	struct cache *cache;	/* all threads' */
	/* Of the whole run; NULL, as at first: the engine sees windows only. */
	const struct reuse *reuse;
	bool base_tables;	/* base pages' tables compete with the data for it */
	/*
	 * Of lines that it has not seen, the fraction that it holds, times 2^32: of data, and of
	 * page tables.  last_level_share() sets both.
	 */
	uint64_t share, table_share;
	struct residency residency;
	struct sightings sightings;
	uint64_t tables[LAST_LEVEL_TABLES];	/* lines of tables read last */
	uint32_t next_table;
};

void last_level_init(struct last_level *level, const struct timing_config *config,
		     struct cache *cache);

/* It holds this many of the bytes that the program has touched. */
void last_level_share(struct last_level *level, uint64_t bytes, uint64_t touched);

/*
 * A window begins, at this time of the core's and of the program's, which has touched this
 * many bytes; it accesses memory once in `per_reference` ticks.
 */
void last_level_begin(struct last_level *level, ticks time, ticks program_time,
		      uint64_t touched, ticks per_reference);

/* The line is there afterwards. */
bool last_level_has(struct last_level *level, uint64_t line, ticks time,
		    struct line_access access);

/* Pseudo-random: a fixed result for each number. */
static inline uint64_t scatter(uint64_t number)
{
	number = (number ^ number >> 32) * UINT64_C(0x9e3779b97f4a7c15);
	return number ^ number >> 32;
}

#endif
