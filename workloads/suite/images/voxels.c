/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What does a cloud look like?  Rays go through a grid of bytes from cell to
 * cell (Amanatides and Woo 1987) until they hardly see any further.  Rays
 * next to each other pass the same cells or the next; a step is to the next
 * byte, the next row, or the next layer.
 */
#include <math.h>

#include "workload.h"

struct grid {
	uint8_t *density;
	int64_t order;
};

/* Balls of different density; where they meet, the last one counts. */
static void make_cloud(struct grid *grid, uint64_t balls, uint64_t seed)
{
	int64_t n = grid->order;
	uint64_t state = workload_seed(seed);

	memset(grid->density, 0, (size_t)(n * n * n));
	for (uint64_t i = 0; i < balls; i++) {
		int64_t r = 1 + (int64_t)workload_below(workload_random(&state), (uint64_t)n / 8 + 1);
		int64_t middle[3];
		int density = 1 + (int)(workload_random(&state) >> 61);

		for (unsigned k = 0; k < 3; k++)
			middle[k] = (int64_t)workload_below(workload_random(&state), (uint64_t)n);
		for (int64_t z = middle[2] - r; z <= middle[2] + r; z++)
			for (int64_t y = middle[1] - r; y <= middle[1] + r; y++) {
				int64_t dz = z - middle[2], dy = y - middle[1];
				int64_t rest = r * r - dz * dz - dy * dy;
				int64_t half, from, to;

				if (rest < 0 || z < 0 || y < 0 || z >= n || y >= n)
					continue;
				half = (int64_t)sqrt((double)rest);
				from = middle[0] - half < 0 ? 0 : middle[0] - half;
				to = middle[0] + half >= n ? n - 1 : middle[0] + half;
				memset(grid->density + (z * n + y) * n + from, density,
				       (size_t)(to - from + 1));
			}
	}
}

/* What comes through along the ray, whose direction has no 0 in it. */
static double march(const struct grid *grid, const double *origin, const double *direction)
{
	const int64_t stride[3] = { 1, grid->order, grid->order * grid->order };
	double next[3], step[3], light = 1;
	int64_t cell[3], place = 0;

	for (unsigned k = 0; k < 3; k++) {
		cell[k] = (int64_t)origin[k];
		place += cell[k] * stride[k];
		step[k] = fabs(1 / direction[k]);
		next[k] = ((double)(cell[k] + (direction[k] > 0)) - origin[k]) / direction[k];
	}
	while (light > 0.01) {
		unsigned k = next[0] < next[1] ? (next[0] < next[2] ? 0 : 2) :
						 (next[1] < next[2] ? 1 : 2);
		int64_t way = direction[k] > 0 ? 1 : -1;

		light *= 1 - grid->density[place] * (1.0 / 1024);
		cell[k] += way;
		if (cell[k] < 0 || cell[k] >= grid->order)
			break;
		place += way * stride[k];
		next[k] += step[k];
	}
	return light;
}

/* One picture, seen through one of three sides of the grid; the sum of its points. */
static uint64_t picture(const struct grid *grid, uint64_t points, unsigned side)
{
	double order = (double)grid->order;
	uint64_t sum = 0;

	for (uint64_t y = 0; y < points; y++)
		for (uint64_t x = 0; x < points; x++) {
			double u = ((double)x + 0.5) / (double)points;
			double v = ((double)y + 0.5) / (double)points;
			double origin[3], direction[3];

			origin[side] = 0;
			origin[(side + 1) % 3] = u * order;
			origin[(side + 2) % 3] = v * order;
			direction[side] = 1;
			direction[(side + 1) % 3] = 0.3001 - u / 2;
			direction[(side + 2) % 3] = 0.2001 - v / 2;
			sum = sum * 31 + (uint64_t)(march(grid, origin, direction) * 255);
		}
	return sum;
}

int main(int argc, char **argv)
{
	uint64_t order = 512, points = 200, balls = 100, seed = 1, sum = 0;
	const struct workload_option options[] = {
		{ "balls", &balls, 0, "balls that the cloud is made of" },
		{ "order", &order, 1, "cells in each direction" },
		{ "points", &points, 1, "points of a picture in each direction" },
		{ "seed", &seed, 0, "of the cloud" },
	};
	struct grid grid;

	(void)argc;
	WORKLOAD_PARSE(argv, "Send rays through a cloud.", options);
	if (order > 4096 || points > 1u << 20) {
		fputs("--order or --points is too large\n", stderr);
		return 2;
	}
	grid.order = (int64_t)order;
	grid.density = workload_memory(order * order * order);
	make_cloud(&grid, balls, seed);
	for (unsigned side = 0; side < 3; side++)
		sum = sum * 31 + picture(&grid, points, side);
	free(grid.density);
	return workload_finish(sum);
}
