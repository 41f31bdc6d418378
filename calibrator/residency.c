/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "residency.h"

#include "clock.h"

/* Lines that are timed: few enough that timing hardly adds to their age. */
#define SAMPLE 4096
#define FIRST_WAIT_NS 125000

/* Read all lines twice, since some caches keep only lines that were used again. */
static void bring(const struct chase *chase)
{
	chase_read(chase);
	chase_read(chase);
}

/* ns per line after `wait_ns` without an access; `age` becomes the lines' mean age in ns. */
static double time_after(struct chase_run *run, uint64_t wait_ns, double *age)
{
	uint64_t start, now;
	double ns;

	bring(run->chase);
	start = clock_ns();
	do
		now = clock_ns();
	while (now - start < wait_ns);
	ns = chase_time(run, CHASE_SERIAL, SAMPLE);
	*age = (double)(now - start) + ns * SAMPLE / 2;
	return ns;
}

int residency_half_life(const struct chase *chase, uint64_t seed, double *half_life_ns)
{
	struct chase_run run = chase_start(chase, seed);
	double memory, here, before, middle, age, age_before;

	if (chase_flush(chase) != 0)
		return -1;
	memory = chase_time(&run, CHASE_FLUSHED, SAMPLE);
	before = time_after(&run, 0, &age_before);
	/* A last-level cache takes less than half as long as memory. */
	middle = before < memory / 2 ? (before + memory) / 2 : memory / 2;
	*half_life_ns = age_before;
	for (uint64_t wait = FIRST_WAIT_NS; before < middle; wait *= 2) {
		here = time_after(&run, wait, &age);
		*half_life_ns = age;
		if (here >= middle)
			*half_life_ns = age_before + (age - age_before) *
						     (middle - before) / (here - before);
		if (*half_life_ns >= RESIDENCY_MOST_NS)
			*half_life_ns = RESIDENCY_MOST_NS;
		if (here >= middle || age >= RESIDENCY_MOST_NS)
			break;
		before = here;
		age_before = age;
	}
	return 0;
}
