/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When does a window open?  One in each period of references, at a random place, so that no
 * rhythm of the program coincides.
 *
 * The length of the run is not known.  So windows are dense at first; whenever there are too
 * many, the period doubles and every other window is dropped.
 *
 * No Valgrind here, so a test can drive it.
 */
#ifndef TLBCOST_ENGINE_SCHEDULE_H
#define TLBCOST_ENGINE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

struct schedule {
	uint64_t origin;	/* time at which the first period begins */
	uint64_t period;	/* references; doubles in a long run */
	uint64_t length;	/* of a window; at most the first period's */
	uint64_t periods;	/* with a chosen window, or passed */
	uint64_t random;	/* state of the generator */
};

/* The first period begins now. */
void schedule_start(struct schedule *schedule, uint64_t now, uint64_t period,
		    uint64_t length);

/* When does the next window open?  Now or later. */
uint64_t schedule_next(struct schedule *schedule, uint64_t now);

/* The number of the period that this window stands for. */
static inline uint64_t schedule_number(const struct schedule *schedule)
{
	return schedule->periods - 1;
}

/*
 * Double the period.  Of the windows so far, those whose periods' numbers have this remainder
 * modulo 2 remain; their numbers are halved.
 */
uint64_t schedule_double(struct schedule *schedule);

#endif
