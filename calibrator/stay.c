/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "stay.h"

#include "clock.h"

/* Lines that are timed: few enough that the time they take hardly adds to their age. */
#define SAMPLE 4096
#define FIRST_WAIT_NS 125000

/* Read all lines twice, since some caches keep only what came back. */
static void bring(const struct chase *chase)
{
	chase_read(chase);
	chase_read(chase);
}

/* ns per line when they were left alone for so long; `age` becomes what that was in the mean. */
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

int stay_time(const struct chase *chase, uint64_t seed, double *ns)
{
	struct chase_run run = chase_start(chase, seed);
	double memory, here, before, middle, age, age_before;

	if (chase_flush(chase) != 0)
		return -1;
	memory = chase_time(&run, CHASE_FLUSHED, SAMPLE);
	before = time_after(&run, 0, &age_before);
	/* A last-level cache takes less than half of what memory does. */
	middle = before < memory / 2 ? (before + memory) / 2 : memory / 2;
	*ns = age_before;
	for (uint64_t wait = FIRST_WAIT_NS; before < middle; wait *= 2) {
		here = time_after(&run, wait, &age);
		*ns = age;
		if (here >= middle)
			*ns = age_before + (age - age_before) *
					   (middle - before) / (here - before);
		if (*ns >= STAY_MOST_NS)
			*ns = STAY_MOST_NS;
		if (here >= middle || age >= STAY_MOST_NS)
			break;
		before = here;
		age_before = age;
	}
	return 0;
}
