/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Take the noise out of a small picture, again and again: each pixel becomes
 * the median of those around it.  A count of each brightness moves along a row
 * with the window; pictures and counts stay in the core's caches.
 */
#include "workload.h"

#define SHADES 256u

struct window {
	uint32_t counts[SHADES];
	uint32_t darker;	/* pixels below the median */
	uint32_t median;
};

static uint64_t within(uint64_t place, uint64_t offset, uint64_t radius, uint64_t order)
{
	place += offset;
	if (place < radius)
		return 0;
	place -= radius;
	return place < order ? place : order - 1;
}

/* Add or remove a column of pixels; the border repeats outside. */
static void change(struct window *window, const unsigned char *picture, uint64_t order,
		   uint64_t row, uint64_t column, uint64_t radius, uint32_t by)
{
	for (uint64_t i = 0; i <= 2 * radius; i++) {
		unsigned char shade = picture[within(row, i, radius, order) * order + column];

		window->counts[shade] += by;
		if (shade < window->median)
			window->darker += by;
	}
}

static void find_median(struct window *window, uint32_t half)
{
	while (window->darker > half)
		window->darker -= window->counts[--window->median];
	while (window->darker + window->counts[window->median] <= half)
		window->darker += window->counts[window->median++];
}

static void filter(const unsigned char *picture, unsigned char *result, uint64_t order,
		   uint64_t radius)
{
	const uint32_t half = (uint32_t)((2 * radius + 1) * (2 * radius + 1) / 2);

	for (uint64_t row = 0; row < order; row++) {
		struct window window = { 0 };

		for (uint64_t i = 0; i <= 2 * radius; i++)
			change(&window, picture, order, row, within(0, i, radius, order), radius, 1);
		for (uint64_t column = 0;; column++) {
			find_median(&window, half);
			result[row * order + column] = (unsigned char)window.median;
			if (column + 1 == order)
				break;
			change(&window, picture, order, row, within(column, 0, radius, order), radius,
			       UINT32_MAX);
			change(&window, picture, order, row,
			       within(column + 1, 2 * radius, radius, order), radius, 1);
		}
	}
}

int main(int argc, char **argv)
{
	uint64_t order = 600, radius = 4, rounds = 250, seed = 1, state, sum = 0;
	const struct workload_option options[] = {
		{ "order", &order, 1, "pixels in each direction" },
		{ "radius", &radius, 0, "of what is around a pixel" },
		{ "rounds", &rounds, 0, "how often it is done" },
		{ "seed", &seed, 0, "of the noise" },
	};
	unsigned char *picture, *result;

	(void)argc;
	WORKLOAD_PARSE(argv, "Take the noise out of a picture.", options);
	if (order > 1 << 20 || radius > 1000) {
		fputs("--order or --radius is too large\n", stderr);
		return 2;
	}
	picture = workload_memory(order * order);
	result = workload_memory(order * order);
	state = workload_seed(seed);
	for (uint64_t i = 0; i < order * order; i++) {
		uint64_t random = workload_random(&state);

		/* A quarter of the pixels is noise. */
		picture[i] = (unsigned char)(random & 3 ? i / order + i % order : random >> 56);
	}
	for (uint64_t i = 0; i < rounds; i++) {
		unsigned char *other = picture;

		filter(picture, result, order, radius);
		picture = result;
		result = other;
	}
	for (uint64_t i = 0; i < order * order; i++)
		sum = sum * 31 + picture[i];
	free(result);
	free(picture);
	return workload_finish(sum);
}
