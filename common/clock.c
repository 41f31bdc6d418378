/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "clock.h"

#include <time.h>

uint64_t clock_ns(void)
{
	struct timespec now;

	/*
	 * Not the cycle counter: its frequency would have to be guessed, and
	 * CLOCK_MONOTONIC, unlike _RAW, is read without a system call everywhere.
	 */
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t timeval_ns(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_usec * 1000u;
}
