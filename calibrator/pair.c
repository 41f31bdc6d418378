/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "pair.h"

#include <stdlib.h>

/* Steps per timing: far above the cost of reading the clock, well below a burst of noise. */
#define STEPS 16384
#define MOST_PARTS 16

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* A chain, and where its two loops are. */
struct runner {
	struct chase chase;
	void *at;
	uint64_t state;
	double ns[MOST_PARTS];
};

static double run_part(struct runner *runner, int serial, size_t steps)
{
	return serial ? chase_time_serial(&runner->at, steps) :
			chase_time_overlapped(&runner->chase, steps, &runner->state);
}

void pair_time(const struct chase chases[2], int serial, uint64_t state, unsigned first,
	       double ns[2])
{
	struct runner runners[2] = {
		{ .chase = chases[0], .at = chases[0].memory, .state = state },
		{ .chase = chases[1], .at = chases[1].memory, .state = state },
	};
	size_t parts = chases[0].lines / STEPS;
	struct runner *runner;

	parts = parts < 1 ? 1 : parts > MOST_PARTS ? MOST_PARTS : parts;
	/*
	 * The first pass over a chain is not timed: it warms caches and TLBs.
	 * Chains too large for the private caches have several parts, and need
	 * no second warming in between: nothing of theirs would stay there.
	 */
	for (size_t part = 0; part < parts; part++)
		for (unsigned i = 0; i < 2; i++) {
			runner = &runners[(i + first) & 1];
			if (part == 0)
				run_part(runner, serial, runner->chase.lines);
			runner->ns[part] = run_part(runner, serial, STEPS);
		}
	for (unsigned i = 0; i < 2; i++) {
		runner = &runners[i];
		qsort(runner->ns, parts, sizeof(runner->ns[0]), compare);
		ns[i] = (runner->ns[(parts - 1) / 2] + runner->ns[parts / 2]) / 2;
	}
}
