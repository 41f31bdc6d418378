/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long does a line remain in the last-level cache without being accessed?
 *
 * That cache is shared.  Others fetch lines at their own pace, whatever this program does; so
 * eviction depends on time, not on what this program has fetched.  The lines' half-life is
 * calibrated.  The remaining share falls as 2^-(age/half-life)^2: some lines remain longer,
 * because the others' pace varies.  The program's own lines need space as well, and shorten
 * that time.
 */
#ifndef TLBCOST_TIMING_RESIDENCY_H
#define TLBCOST_TIMING_RESIDENCY_H

#include "config.h"
#include "reuse.h"

#define AGES 40u

/* What windows have seen of lines accessed beyond L2. */
struct sightings {
	uint64_t windows;		/* that have begun */
	uint64_t asked, missing;	/* lines of data, and those of them that were in memory */
	/* Lines of data accessed in a first, a second and a third window. */
	uint64_t first, second, third;
	/*
	 * Recently: all lines, by the log2 of their age when accessed, and the time covered.
	 */
	uint64_t aged[AGES];
	ticks span, until;
};

struct residency {
	/* Half of the lines are evicted after it; with `reuse`, the age at which LRU evicts. */
	ticks half_life;
	/* Of the whole run; NULL: the engine saw windows only. */
	const struct reuse *reuse;
	struct reuse_kept kept;	/* by the part of the cache that protects reused lines */
	ticks modelled;		/* time that the core has run before */
	bool often;		/* enough windows to know how often lines are accessed */
	ticks unseen;		/* mean time between two uses of a line not seen before */
	ticks begin;		/* of this window, in the program's time */
	ticks ahead;		/* the program's time less the core's: see residency_now() */
	ticks per_reference;	/* of the program, on average */
};

/*
 * A window begins.  Only this program uses the cache, and the engine sees the whole run.  `tables`:
 * page tables are in the cache, too.
 */
void residency_begin_seen(struct residency *residency, const struct timing_config *config,
			  const struct reuse *reuse, bool tables);

/*
 * The same if others use the cache, too; config->l3_half_life_cycles is known.  The core has run
 * for `time` so far; the program has touched `touched` lines.
 */
void residency_begin(struct residency *residency,
		     const struct timing_config *config, ticks time,
		     uint64_t touched, struct sightings *seen);

/* A line of this age was accessed. */
static inline void residency_saw(struct sightings *seen, ticks age)
{
	uint32_t log = age ? 63 - (uint32_t)__builtin_clzll(age) : 0;

	seen->aged[log < AGES ? log : AGES - 1]++;
}

/* The program's time, which continues between windows. */
static inline ticks residency_now(const struct residency *residency, ticks time)
{
	return time + residency->ahead;
}

/* Is a line of this age there?  `random`: constant for a line throughout a window. */
bool residency_left(const struct residency *residency, enum line_kind kind, ticks age,
		    uint64_t random);

/*
 * The age at `now` of a line not accessed in this window yet, and accessed in N windows
 * before.  Uses between windows are not seen, so it is younger than it seems: as old as lines
 * that the engine has sampled, or that are accessed at random equally often.
 */
ticks residency_age(const struct residency *residency, enum line_kind kind, ticks now,
		    uint32_t windows, uint64_t random);

/* For a known age, one to compare with those that residency_age() draws: see reuse_spread(). */
ticks residency_spread(const struct residency *residency, ticks age, uint64_t random);

#endif
