/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "chase.h"

#include "clock.h"

uint64_t chase_random(uint64_t *state)
{
	/* A counter and a strong mixer (splitmix64): any seed will do, also 0. */
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static void **line_of(const struct chase *chase, size_t line)
{
	return (void **)(void *)(chase->memory + line * chase->stride);
}

void chase_shuffle(uint32_t *order, size_t n, uint64_t *seed)
{
	size_t other;
	uint32_t swap;

	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	for (size_t i = n; i > 1; i--) {
		other = (size_t)(chase_random(seed) % i);
		swap = order[i - 1];
		order[i - 1] = order[other];
		order[other] = swap;
	}
}

void chase_link(const struct chase *chase, uint32_t *order, uint64_t *seed)
{
	const size_t n = chase->lines;

	chase_shuffle(order, n, seed);
	for (size_t i = 0; i < n; i++)
		*line_of(chase, order[i]) = line_of(chase, order[i + 1 < n ? i + 1 : 0]);
}

__attribute__((noinline)) void *chase_serial(void *start, size_t count)
{
	void **at = start;

	while (count--)
		at = *at;
	return at;
}

__attribute__((noinline)) uint64_t chase_overlapped(const struct chase *chase, size_t count,
						     uint64_t state)
{
	/* The second word of each line, so that the ring survives. */
	char *memory = chase->memory + sizeof(void *);
	const size_t stride = chase->stride;
	const uint64_t lines = chase->lines;
	uint64_t z;

	/*
	 * Only the counter passes from one step to the next, in one cycle; the
	 * mixing of different steps overlaps, so that the generator is never
	 * what the loop waits for.
	 */
	while (count--) {
		state += 0x9e3779b97f4a7c15u;
		z = (state ^ state >> 29) * 0xbf58476d1ce4e5b9u;
		*(uint64_t *)(void *)(memory + ((z >> 32) * lines >> 32) * stride) += z;
	}
	return state;
}

double chase_time_serial(void **at, size_t count)
{
	uint64_t start = clock_ns();

	*at = chase_serial(*at, count);
	return (double)(clock_ns() - start) / (double)count;
}

double chase_time_overlapped(const struct chase *chase, size_t count, uint64_t *state)
{
	uint64_t start = clock_ns();

	*state = chase_overlapped(chase, count, *state);
	return (double)(clock_ns() - start) / (double)count;
}
