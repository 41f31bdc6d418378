/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "order.h"

uint64_t order_random(uint64_t *state)
{
	/* A counter and a strong mixer (splitmix64): any seed works, even 0. */
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

void order_shuffle(uint32_t *order, size_t n, uint64_t *seed)
{
	size_t other;
	uint32_t swap;

	for (size_t i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	for (size_t i = n; i > 1; i--) {
		other = (size_t)(order_random(seed) % i);
		swap = order[i - 1];
		order[i - 1] = order[other];
		order[other] = swap;
	}
}

static size_t common_divisor(size_t a, size_t b)
{
	return b ? common_divisor(b, a % b) : a;
}

/* A random number whose multiples, modulo n, are all numbers below n. */
static size_t random_step(size_t n, uint64_t *seed)
{
	size_t step;

	do
		step = 1 + (size_t)(order_random(seed) % n);
	while (common_divisor(step, n) != 1);
	return step;
}

/* Block after block, in an order that no prefetcher predicts; random within each. */
static void by_block(const struct layout *layout, uint32_t *order, size_t n, uint64_t *seed)
{
	size_t size = layout->block_lines, blocks = (n + size - 1) / size;
	size_t step = random_step(blocks, seed), block, length;

	for (size_t i = 0; i < blocks; i++) {
		block = i * step % blocks;
		length = block + 1 < blocks ? size : n - block * size;
		order_shuffle(order, length, seed);
		for (size_t j = 0; j < length; j++)
			order[j] += (uint32_t)(block * size);
		order += length;
	}
}

/* The lines of one region, and where among them its next visit is. */
struct region {
	uint32_t first, count, next, step;
};

static size_t find_regions(const struct layout *layout, size_t n,
			   struct region regions[LAYOUT_MOST_REGIONS], uint64_t *seed)
{
	size_t count = 0, number, last = SIZE_MAX;

	for (size_t i = 0; i < n; i++) {
		number = layout_place(layout, i) / layout->turn_bytes;
		if (number != last && count < LAYOUT_MOST_REGIONS)
			regions[count++] = (struct region){ .first = (uint32_t)i };
		last = number;
		regions[count - 1].count++;
	}
	for (size_t i = 0; i < count; i++) {
		regions[i].next = (uint32_t)(order_random(seed) % regions[i].count);
		regions[i].step = (uint32_t)random_step(regions[i].count, seed);
	}
	return count;
}

/* Each region in its turn, so that between two visits to one all others are visited. */
static void in_turn(const struct layout *layout, uint32_t *order, size_t n, uint64_t *seed)
{
	struct region regions[LAYOUT_MOST_REGIONS], *region;
	uint32_t turns[LAYOUT_MOST_REGIONS];
	size_t count = find_regions(layout, n, regions, seed), at = 0;

	order_shuffle(turns, count, seed);
	for (size_t round = 0; at < n; round++)
		for (size_t i = 0; i < count; i++) {
			region = &regions[turns[i]];
			if (round >= region->count)
				continue;
			order[at++] = region->first + region->next;
			region->next = (region->next + region->step) % region->count;
		}
}

void order_lines(const struct layout *layout, uint32_t *order, size_t n, uint64_t *seed)
{
	if (layout->by_block)
		by_block(layout, order, n, seed);
	else if (layout->turn_bytes)
		in_turn(layout, order, n, seed);
	else
		order_shuffle(order, n, seed);
}
