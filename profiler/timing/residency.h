/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long does a line stay in the last-level cache if nobody accesses it?
 *
 * That cache is shared.  Others bring lines at a pace of their own, whatever
 * this program does; so a line is not gone when this program has brought so
 * much else, but when so much time has passed.  The time after which half of
 * them are gone is calibrated.  Around it the share that is left falls as
 * 2^-(age/half-life)^2: some stay longer, as the others' pace is not even.  The
 * program's own lines need room as well, and shorten that time.
 */
#ifndef TLBCOST_TIMING_RESIDENCY_H
#define TLBCOST_TIMING_RESIDENCY_H

#include "config.h"

#define AGES 40u

/* What windows have seen of lines that were wanted from beyond L2. */
struct sightings {
	uint64_t windows;		/* that have begun */
	uint64_t asked, missing;	/* lines of data, and those of them that were in memory */
	/* Lines of data that were wanted in a first, a second and a third window. */
	uint64_t first, second, third;
	/* Lately: of all lines, by the log2 of their age when they were wanted, and in what time. */
	uint64_t aged[AGES];
	ticks span, until;
};

struct residency {
	ticks half_life;	/* after this age half of the lines are gone */
	ticks modelled;		/* time that the core has run for before */
	bool often;		/* enough windows were seen to know how often lines are wanted */
	ticks unseen;		/* mean time between two uses of a line not seen before */
	ticks begin;		/* of this window, in the program's time */
	ticks ahead;		/* the program's time less the core's: see residency_now() */
	ticks per_reference;	/* of the program, on average */
};

/*
 * What is known when a window begins; config->l3_half_life_cycles is.  The core
 * has run for `time` so far; the program has `touched` so many lines.
 */
void residency_begin(struct residency *residency,
		     const struct timing_config *config, ticks time,
		     uint64_t touched, struct sightings *seen);

/* A line of this age was wanted. */
static inline void residency_saw(struct sightings *seen, ticks age)
{
	uint32_t log = age ? 63 - (uint32_t)__builtin_clzll(age) : 0;

	seen->aged[log < AGES ? log : AGES - 1]++;
}

/* The program's time, which runs on between windows. */
static inline ticks residency_now(const struct residency *residency, ticks time)
{
	return time + residency->ahead;
}

/* Is a line of this age there?  `random`: the same for a line in all of a window. */
bool residency_left(const struct residency *residency, ticks age,
		    uint64_t random);

/*
 * The age at `now` of a line that was not wanted in this window yet, and was in
 * so many before.  Uses between windows are not seen, so that it is younger than
 * it seems: as old as lines are that are wanted at random as often.
 */
ticks residency_age(const struct residency *residency, ticks now,
		    uint32_t windows, uint64_t random);

#endif
