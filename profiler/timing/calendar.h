/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When is one of a few servers free?  Page walkers, line-fill buffers, the channel to memory.
 *
 * The model visits instructions in program order, but they execute out of order: a request may
 * come before one that was made earlier.  So time is cut into slots, each with the amount of
 * work that its servers can do.
 */
#ifndef TLBCOST_TIMING_CALENDAR_H
#define TLBCOST_TIMING_CALENDAR_H

#include "config.h"

#define CALENDAR_SLOTS 2048u
#define CALENDAR_SLOT_SHIFT 12u		/* 64 cycles */

struct calendar {
	uint32_t capacity;		/* of a slot, ticks of work */
	uint64_t first;			/* number of the earliest slot kept */
	uint32_t used[CALENDAR_SLOTS];	/* by slot number modulo their count */
};

void calendar_init(struct calendar *calendar, uint32_t servers);

/* No later request starts before `now`: forget the past. */
void calendar_forget(struct calendar *calendar, ticks now);

static inline void calendar_advance(struct calendar *calendar, ticks now)
{
	if (now >> CALENDAR_SLOT_SHIFT > calendar->first)
		calendar_forget(calendar, now);
}

/*
 * Have one server work for this time, from `start` on at the earliest.  Returns when it is
 * done.  Beyond the last slot the number of servers is unlimited.
 */
ticks calendar_take(struct calendar *calendar, ticks start, ticks work);

#endif
