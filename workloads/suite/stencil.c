/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Let heat flow in a cube: each point of a grid becomes a mean of itself and
 * its six neighbours, again and again.  Seven places are read in order at a
 * time, a row or a plane apart, and an eighth is written.
 */
#include "workload.h"

/* The points at the border keep their heat. */
static void step(const double *from, double *to, uint64_t order)
{
	uint64_t plane = order * order;

	for (uint64_t z = 1; z + 1 < order; z++)
		for (uint64_t y = 1; y + 1 < order; y++) {
			const double *row = from + z * plane + y * order;
			double *out = to + z * plane + y * order;

			for (uint64_t x = 1; x + 1 < order; x++)
				out[x] = 0.4 * row[x] +
					 0.1 * (row[x - 1] + row[x + 1] +
						row[x - order] + row[x + order] +
						row[x - plane] + row[x + plane]);
		}
}

int main(int argc, char **argv)
{
	uint64_t order = 250, rounds = 40, seed = 1, points, state, bits, sum = 0;
	const struct workload_option options[] = {
		{ "order", &order, 1, "points along each edge" },
		{ "rounds", &rounds, 0, "steps of time" },
		{ "seed", &seed, 0, "of the heat at the start" },
	};
	double *now, *then, *other;

	(void)argc;
	WORKLOAD_PARSE(argv, "Let heat flow in a cube.", options);
	if (order > 1u << 16) {
		fputs("--order is too large\n", stderr);
		return 2;
	}
	points = order * order * order;
	now = workload_memory(points * sizeof(*now));
	then = workload_memory(points * sizeof(*then));
	state = workload_seed(seed);
	for (uint64_t i = 0; i < points; i++)
		now[i] = then[i] = (double)workload_below(workload_random(&state), 1000);
	for (uint64_t round = 0; round < rounds; round++) {
		step(now, then, order);
		other = now;
		now = then;
		then = other;
	}
	for (uint64_t i = 0; i < points; i += order + 1) {
		memcpy(&bits, &now[i], sizeof(bits));
		sum = sum * 31 + bits;
	}
	free(now);
	free(then);
	return workload_finish(sum);
}
