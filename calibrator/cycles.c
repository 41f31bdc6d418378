/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cycles.h"

#include "clock.h"

#define ADDITIONS (UINT64_C(1) << 17)

/* Governors sample the load every few ms. */
#define WAKE_NS 20000000u

__attribute__((noinline)) uint64_t cycles_add(uint64_t step, uint64_t count)
{
	uint64_t sum = 0;

	/*
	 * Registers only: some cores fold additions of constants into their renaming, at no
	 * cost.  The empty statement keeps the compiler from turning them into one
	 * multiplication.
	 */
	__asm__ volatile("" : "+r"(step));
	for (uint64_t i = 0; i < count; i += 32) {
#pragma GCC unroll 32
		for (unsigned j = 0; j < 32; j++) {
			sum += step;
			__asm__ volatile("" : "+r"(sum));
		}
	}
	return sum;
}

double cycles_ns(void)
{
	uint64_t start = clock_ns();

	cycles_add(start, ADDITIONS);
	return (double)(clock_ns() - start) / (double)ADDITIONS;
}

void cycles_wake(void)
{
	uint64_t end = clock_ns() + WAKE_NS;

	while (clock_ns() < end)
		cycles_ns();
}
