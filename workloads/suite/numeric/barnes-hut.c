/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Move stars by each other's gravity, as Barnes and Hut do: a tree of squares,
 * built anew in each step, has what lies in each, so that what is far counts
 * as one.  Stars are in no order, and neither are the squares that one meets.
 */
#include <math.h>

#include "workload.h"

#define PARTS 4u
#define DEEPEST 60u
#define SOFTENING 1e-6
#define STEP 1e-4

struct star {
	double x, y, vx, vy, mass;
};

struct square {
	double x, y, mass;	/* of all stars in it */
	int32_t parts[PARTS];	/* 0: empty, below: ~ of a star, above: a square */
};

struct sky {
	struct star *stars;
	uint32_t n;
	struct square *squares;	/* 1: the whole */
	uint32_t used, most;
	double left, low, size;
};

/* A side of the sky's square, and where a place is. */
struct place {
	double x, y, half;
};

static unsigned part_of(struct place *place, const struct star *star)
{
	unsigned part = 0;

	place->half /= 2;
	if (star->x >= place->x) {
		part = 1;
		place->x += place->half;
	} else {
		place->x -= place->half;
	}
	if (star->y >= place->y) {
		part |= 2;
		place->y += place->half;
	} else {
		place->y -= place->half;
	}
	return part;
}

static int32_t new_square(struct sky *sky)
{
	if (sky->used == sky->most) {
		fputs("cannot tell stars apart that are at the same place\n", stderr);
		exit(1);
	}
	sky->squares[sky->used] = (struct square){ 0 };
	return (int32_t)sky->used++;
}

static void add_to(struct square *square, const struct star *star)
{
	square->mass += star->mass;
	square->x += star->mass * star->x;
	square->y += star->mass * star->y;
}

static void insert(struct sky *sky, uint32_t which)
{
	const struct star *star = &sky->stars[which];
	struct place place = { sky->left + sky->size / 2, sky->low + sky->size / 2,
			       sky->size / 2 };
	int32_t at = 1;

	for (unsigned depth = 0;; depth++) {
		const unsigned part = part_of(&place, star);
		int32_t next = sky->squares[at].parts[part];

		add_to(&sky->squares[at], star);
		if (next == 0 || depth == DEEPEST) {
			sky->squares[at].parts[part] = ~(int32_t)which;
			return;
		}
		if (next < 0) {
			struct place inner = place;
			const struct star *other = &sky->stars[~next];
			const int32_t fresh = new_square(sky);

			sky->squares[fresh].parts[part_of(&inner, other)] = next;
			add_to(&sky->squares[fresh], other);
			sky->squares[at].parts[part] = fresh;
			next = fresh;
		}
		at = next;
	}
}

static void build(struct sky *sky)
{
	double right, high;

	sky->left = right = sky->stars[0].x;
	sky->low = high = sky->stars[0].y;
	for (uint32_t i = 0; i < sky->n; i++) {
		sky->left = fmin(sky->left, sky->stars[i].x);
		sky->low = fmin(sky->low, sky->stars[i].y);
		right = fmax(right, sky->stars[i].x);
		high = fmax(high, sky->stars[i].y);
	}
	sky->size = fmax(right - sky->left, high - sky->low);
	sky->used = 1;
	new_square(sky);
	for (uint32_t i = 0; i < sky->n; i++)
		insert(sky, i);
	for (uint32_t i = 1; i < sky->used; i++) {
		sky->squares[i].x /= sky->squares[i].mass;
		sky->squares[i].y /= sky->squares[i].mass;
	}
}

static void pull(struct star *star, double x, double y, double mass)
{
	const double dx = x - star->x, dy = y - star->y;
	const double square = dx * dx + dy * dy + SOFTENING;
	const double by = STEP * mass / (square * sqrt(square));

	star->vx += by * dx;
	star->vy += by * dy;
}

/* By a square whose side is `size`, and all that is in it. */
static void pull_by(const struct sky *sky, struct star *star, int32_t at, double size,
		    double angle)
{
	const struct square *square = &sky->squares[at];
	const double dx = square->x - star->x, dy = square->y - star->y;

	if (size * size < angle * angle * (dx * dx + dy * dy)) {
		pull(star, square->x, square->y, square->mass);
		return;
	}
	for (unsigned i = 0; i < PARTS; i++) {
		const int32_t part = square->parts[i];

		if (part > 0)
			pull_by(sky, star, part, size / 2, angle);
		else if (part < 0)
			pull(star, sky->stars[~part].x, sky->stars[~part].y,
			     sky->stars[~part].mass);
	}
}

static void step(struct sky *sky, double angle)
{
	build(sky);
	for (uint32_t i = 0; i < sky->n; i++)
		pull_by(sky, &sky->stars[i], 1, sky->size, angle);
	for (uint32_t i = 0; i < sky->n; i++) {
		sky->stars[i].x += STEP * sky->stars[i].vx;
		sky->stars[i].y += STEP * sky->stars[i].vy;
	}
}

/* Between 0 and 1; more of them near a half. */
static double coordinate(uint64_t *state)
{
	const uint64_t a = workload_random(state) >> 12, b = workload_random(state) >> 12;

	return (double)(a + b) / (double)(UINT64_C(1) << 53);
}

int main(int argc, char **argv)
{
	uint64_t stars = 350000, rounds = 2, percent = 70, seed = 1, state, bits;
	const struct workload_option options[] = {
		{ "percent", &percent, 0, "of its distance: what a square's side may be" },
		{ "rounds", &rounds, 0, "steps" },
		{ "seed", &seed, 0, "of the stars" },
		{ "stars", &stars, 2, "stars" },
	};
	struct sky sky;
	double energy = 0;

	(void)argc;
	WORKLOAD_PARSE(argv, "Move stars by each other's gravity.", options);
	if (stars > 1 << 28 || percent > 1000) {
		fputs("--stars or --percent is too large\n", stderr);
		return 2;
	}
	sky.n = (uint32_t)stars;
	sky.most = 4 * sky.n + DEEPEST;
	sky.stars = workload_memory(stars * sizeof(*sky.stars));
	sky.squares = workload_memory(sky.most * sizeof(*sky.squares));
	state = workload_seed(seed);
	for (uint64_t i = 0; i < stars; i++) {
		struct star *star = &sky.stars[i];

		star->x = coordinate(&state);
		star->y = coordinate(&state);
		star->vx = star->vy = 0;
		star->mass = (double)(1 + workload_below(workload_random(&state), 10));
	}
	for (uint64_t i = 0; i < rounds; i++)
		step(&sky, (double)percent / 100);
	for (uint64_t i = 0; i < stars; i++)
		energy += sky.stars[i].mass * (sky.stars[i].vx * sky.stars[i].vx +
					       sky.stars[i].vy * sky.stars[i].vy) / 2;
	memcpy(&bits, &energy, sizeof(bits));
	free(sky.squares);
	free(sky.stars);
	return workload_finish(bits);
}
