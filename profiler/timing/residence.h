/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long does a line stay in the last-level cache if nobody wants it?
 *
 * That cache is shared.  Others bring lines at a pace of their own, whatever
 * this program does; so a line is not gone when this program has brought so
 * much else, but when so much time has passed.  The time after which half of
 * them are gone is calibrated.  Around it the share that is left falls as
 * 2^-(age/half)^2: some stay longer, as the others' pace is not even.  What the
 * program brings itself shortens that time.
 */
#ifndef TLBCOST_TIMING_RESIDENCE_H
#define TLBCOST_TIMING_RESIDENCE_H

#include "config.h"

struct residence {
	ticks half;		/* after this age half of the lines are gone */
	ticks wanted;		/* mean time between two uses of a line */
	ticks ahead;		/* the program's time less the core's: see residence_now() */
	ticks per_reference;	/* of the program, in the mean */
};

/*
 * What is known when a window begins.  `config->l3_kept` is not 0.  The core
 * has run for `time` so far, in which it wanted `asked` lines of data from
 * beyond L2, of `touched` that the program has; `brought` lines came from memory.
 */
void residence_begin(struct residence *residence,
		     const struct timing_config *config, ticks time,
		     uint64_t asked, uint64_t brought, uint64_t touched);

/* The program's time, which runs on between windows. */
static inline ticks residence_now(const struct residence *residence, ticks time)
{
	return time + residence->ahead;
}

/* Is a line of this age there?  `random`: the same for a line each time. */
bool residence_left(const struct residence *residence, ticks age,
		    uint64_t random);

/* The age of a line that is wanted now, and not seen before: as of lines that are wanted at random. */
ticks residence_age(const struct residence *residence, uint64_t random);

#endif
