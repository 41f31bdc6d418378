/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What time is it, for measuring? */
#ifndef TLBCOST_CLOCK_H
#define TLBCOST_CLOCK_H

#include <stdint.h>
#include <sys/time.h>

/*
 * Nanoseconds since an arbitrary start; never goes back.  Reading costs 20 ns to 1 us, so what
 * is timed should take at least 20 us.
 */
uint64_t clock_ns(void);

/* A time of getrusage() in nanoseconds. */
uint64_t timeval_ns(struct timeval time);

#endif
