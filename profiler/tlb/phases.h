/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When did a process miss?  Its misses during the run, in a fixed number of phases that all
 * double in length whenever they do not suffice.
 */
#ifndef TLBCOST_PHASES_H
#define TLBCOST_PHASES_H

#include "tlb_config.h"

#define PHASES 512u
/* References in a phase at first. */
#define PHASE_REFERENCES (UINT64_C(1) << 16)

struct phase {
	uint64_t hits[TLB_SIZES], walks[TLB_SIZES];
};

struct phases {
	uint64_t origin;		/* time at which the first one begins */
	uint64_t references;		/* in each phase */
	uint64_t end;			/* time at which the last one ends */
	uint32_t last;			/* number of the last one */
	struct phase phase[PHASES];
};

/* Start with one phase, at this time. */
void phases_start(struct phases *phases, uint64_t time);

/* Private: advance to the phase of a time after the last one. */
void phases_advance(struct phases *phases, uint64_t time);

/* A first-level miss at a time that may be slightly in the past. */
static inline void phases_note(struct phases *phases, uint64_t time,
			       enum tlb_size size, bool walk)
{
	struct phase *phase;

	if (time >= phases->end)
		phases_advance(phases, time);
	phase = &phases->phase[phases->last];
	if (walk)
		phase->walks[size]++;
	else
		phase->hits[size]++;
}

#endif
