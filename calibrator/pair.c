/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "pair.h"

#include <stdlib.h>

/* Steps per timing: far above the cost of reading the clock, well below a burst of noise. */
#define STEPS 16384
#define MOST_PARTS 8

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
	qsort(values, n, sizeof(*values), compare);
	return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

/*
 * The first pass over a chain is not timed: it brings it into caches and TLBs, or
 * takes it out of the caches.  Returns 0, or -1 with errno set.
 */
static int warm(struct chase_run *run, enum chase_access access)
{
	const struct chase *chase = run->chase;
	size_t whole = (chase->lines / CHASE_MOST_CHAINS + 1) * CHASE_MOST_CHAINS;

	if (access == CHASE_FLUSHED)
		return chase_flush(chase);
	/*
	 * One that the TLBs hold window by window may be large; in the order of
	 * addresses the prefetchers bring it soon.  Twice, since some caches
	 * keep only what came back.
	 */
	if (chase->layout.by_block && chase->lines > STEPS)
		for (unsigned i = 0; i < 2; i++)
			chase_read(chase);
	else
		chase_time(run, access, whole);
	return 0;
}

int pair_time(const struct chase *chases, unsigned count, enum chase_access access,
	       uint64_t seed, unsigned first, double *ns)
{
	double parts_ns[2][MOST_PARTS];
	struct chase_run runs[2];
	size_t parts = chases[0].lines / STEPS, steps = STEPS;
	unsigned which;

	parts = parts < 1 ? 1 : parts > MOST_PARTS ? MOST_PARTS : parts;
	/* What was flushed is in the caches again after one visit. */
	if (access == CHASE_FLUSHED && chases[0].lines < STEPS)
		steps = chases[0].lines;
	for (unsigned i = 0; i < count; i++)
		runs[i] = chase_start(&chases[i], seed);
	/*
	 * Chains too large for the private caches have several parts, and need
	 * no second warming in between: nothing of theirs would stay there.
	 */
	for (size_t part = 0; part < parts; part++)
		for (unsigned i = 0; i < count; i++) {
			which = (i + first) % count;
			if (part == 0 && warm(&runs[which], access) != 0)
				return -1;
			parts_ns[which][part] = chase_time(&runs[which], access, steps);
		}
	for (unsigned i = 0; i < count; i++)
		ns[i] = median(parts_ns[i], parts);
	return 0;
}
