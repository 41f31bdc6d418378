/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which cells live on?  Conway's game of life on bytes: three rows are read in
 * order while one of another field is written.  Small fields stay in the caches.
 */
#include "workload.h"

/* One generation; the field's edges meet. `order` cells each way. */
static void step(const uint8_t *from, uint8_t *to, uint64_t order)
{
	for (uint64_t y = 0; y < order; y++) {
		const uint8_t *above = from + (y + order - 1) % order * order;
		const uint8_t *row = from + y * order;
		const uint8_t *below = from + (y + 1) % order * order;
		/* Cells in the columns to the left, of this one, and to the right. */
		unsigned left = 0u + above[order - 1] + row[order - 1] + below[order - 1];
		unsigned here = 0u + above[0] + row[0] + below[0];

		for (uint64_t x = 0; x < order; x++) {
			uint64_t next = x + 1 == order ? 0 : x + 1;
			unsigned right = 0u + above[next] + row[next] + below[next];
			unsigned around = left + here + right - row[x];

			to[y * order + x] = around == 3 || (around == 2 && row[x]);
			left = here;
			here = right;
		}
	}
}

int main(int argc, char **argv)
{
	uint64_t order = 3072, rounds = 50, seed = 1, state, sum = 0;
	const struct workload_option options[] = {
		{ "order", &order, 1, "cells in each direction" },
		{ "rounds", &rounds, 0, "generations" },
		{ "seed", &seed, 0, "of the first generation" },
	};
	uint8_t *from, *to;

	(void)argc;
	WORKLOAD_PARSE(argv, "Play the game of life.", options);
	if (order > 1u << 20) {
		fputs("--order is too large\n", stderr);
		return 2;
	}
	from = workload_memory(order * order);
	to = workload_memory(order * order);
	state = workload_seed(seed);
	for (uint64_t i = 0; i < order * order; i++)
		from[i] = workload_random(&state) >> 62 == 0;
	for (uint64_t i = 0; i < rounds; i++) {
		uint8_t *other = to;

		step(from, to, order);
		to = from;
		from = other;
	}
	for (uint64_t i = 0; i < order * order; i++)
		sum = sum * 31 + from[i];
	free(from);
	free(to);
	return workload_finish(sum);
}
