/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long does a part of a program take, and how fast does the core run in it? */
#ifndef TLBCOST_TIMED_H
#define TLBCOST_TIMED_H

#include <stdint.h>
#include <time.h>

#define TIMED_ADDITIONS (UINT64_C(1) << 19)
#define TIMED_TRIES 4u

static inline double timed_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

/* Dependent additions: one core cycle each. */
static inline double timed_addition_ns(void)
{
	const double start = timed_ns();
	uint64_t sum = 0, step = (uint64_t)start;

	/* Registers only: some cores fold constants into their renaming. */
	__asm__ volatile("" : "+r"(step));
	for (uint64_t i = 0; i < TIMED_ADDITIONS; i += 32) {
#pragma GCC unroll 32
		for (unsigned j = 0; j < 32; j++) {
			sum += step;
			__asm__ volatile("" : "+r"(sum));
		}
	}
	return (timed_ns() - start) / (double)TIMED_ADDITIONS;
}

/* Core cycles per ns now; what interrupts can only make some of the tries slower. */
static inline double timed_cycles_per_ns(void)
{
	double least = timed_addition_ns();

	for (unsigned i = 1; i < TIMED_TRIES; i++) {
		const double ns = timed_addition_ns();

		least = ns < least ? ns : least;
	}
	return 1 / least;
}

#endif
