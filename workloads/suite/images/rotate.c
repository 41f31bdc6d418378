/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Turn a picture: for each pixel of the new picture, in order, the four around
 * its place in the old one are mixed.  A row of the new one goes across many of
 * the old one's, and the next row goes nearly the same way.
 */
#include <math.h>

#include "workload.h"

#define CHANNELS 4u
#define ONE 65536	/* places are in 1/65536 of a pixel */

struct picture {
	int64_t order;
	unsigned char *pixels;
};

/* Smooth in places, rough in others. */
static void paint(const struct picture *p, uint64_t seed)
{
	uint64_t state = workload_seed(seed);
	unsigned char *pixel = p->pixels;

	for (int64_t y = 0; y < p->order; y++)
		for (int64_t x = 0; x < p->order; x++, pixel += CHANNELS) {
			uint64_t random = workload_random(&state);

			pixel[0] = (unsigned char)(x >> 4);
			pixel[1] = (unsigned char)(y >> 4);
			pixel[2] = (unsigned char)(random >> 56);
			pixel[3] = (unsigned char)((x ^ y) >> 3);
		}
}

/* Mix the pixels at (x, y), to its right and below it; outside, a pixel is black. */
static void mix(const struct picture *from, int64_t x, int64_t y, unsigned char *to)
{
	int64_t column = x >> 16, row = y >> 16, right = x & (ONE - 1), down = y & (ONE - 1);
	int64_t line = from->order * (int64_t)CHANNELS;
	const unsigned char *p;

	if (row < 0 || column < 0 || row >= from->order - 1 || column >= from->order - 1) {
		memset(to, 0, CHANNELS);
		return;
	}
	p = from->pixels + row * line + column * (int64_t)CHANNELS;
	for (unsigned i = 0; i < CHANNELS; i++, p++) {
		int64_t above = p[0] * (ONE - right) + p[CHANNELS] * right;
		int64_t below = p[line] * (ONE - right) + p[line + CHANNELS] * right;

		to[i] = (unsigned char)((above * (ONE - down) + below * down) >> 32);
	}
}

static void turn(const struct picture *from, const struct picture *to, uint64_t degrees)
{
	double radians = (double)degrees * acos(-1) / 180;
	int64_t cosine = llround(cos(radians) * ONE), sine = llround(sin(radians) * ONE);
	int64_t middle = from->order / 2;
	unsigned char *pixel = to->pixels;

	for (int64_t row = 0; row < to->order; row++) {
		int64_t up = row - middle;
		int64_t x = middle * ONE - middle * cosine - up * sine;
		int64_t y = middle * ONE - middle * sine + up * cosine;

		for (int64_t column = 0; column < to->order; column++, pixel += CHANNELS) {
			mix(from, x, y, pixel);
			x += cosine;
			y += sine;
		}
	}
}

int main(int argc, char **argv)
{
	uint64_t order = 7000, degrees = 20, rounds = 2, seed = 1, sum = 0;
	const struct workload_option options[] = {
		{ "degrees", &degrees, 0, "to turn by each time" },
		{ "order", &order, 1, "pixels along each edge" },
		{ "rounds", &rounds, 0, "times" },
		{ "seed", &seed, 0, "of the picture" },
	};
	struct picture from, to;
	uint64_t bytes;

	(void)argc;
	WORKLOAD_PARSE(argv, "Turn a picture.", options);
	if (order > 1000000) {
		fputs("--order must be at most 1000000\n", stderr);
		return 2;
	}
	bytes = order * order * CHANNELS;
	from = (struct picture){ (int64_t)order, workload_memory(bytes) };
	to = (struct picture){ (int64_t)order, workload_memory(bytes) };
	paint(&from, seed);
	for (; rounds > 0; rounds--) {
		struct picture last = from;

		turn(&from, &to, degrees);
		from = to;
		to = last;
	}
	for (uint64_t i = 0; i < bytes; i++)
		sum = sum * 31 + from.pixels[i];
	free(from.pixels);
	free(to.pixels);
	return workload_finish(sum);
}
