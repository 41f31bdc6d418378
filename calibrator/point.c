/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "point.h"

#include <math.h>
#include <stdlib.h>

#include "chase.h"
#include "clock.h"
#include "code.h"
#include "load.h"
#include "order.h"

/* The longest wait: a half-life of this much is a lower bound. */
#define RESIDENCY_MOST_NS 32e6

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

/*
 * The half-life of a linked chain's lines in the last-level cache, in ns, at most
 * RESIDENCY_MOST_NS: the chain is read, left alone for longer and longer times, and some of it
 * timed, until that takes half as long as from memory.  The chain should be larger than a
 * core's own caches and smaller than the last one; where it is evicted while it is read, the
 * result is the time of reading it.  Returns 0, or -1 with errno ENOTSUP: this CPU cannot
 * flush lines, so memory's latency is not known.
 */
static int residency_half_life(const struct chase *chase, uint64_t seed, double *half_life_ns)
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

static const char *const access_names[] = {
	[CHASE_SERIAL] = "serial", [CHASE_OVERLAPPED] = "overlapped", [CHASE_STORE] = "store",
	[CHASE_CHAINS_2] = "chains_2", [CHASE_CHAINS_4] = "chains_4",
	[CHASE_CHAINS_8] = "chains_8", [CHASE_INDEPENDENT] = "independent",
	[CHASE_SEQUENTIAL] = "sequential", [CHASE_FLUSHED] = "flushed",
};
#define ACCESSES (sizeof(access_names) / sizeof(access_names[0]))

/* Steps per timing: far above the cost of reading the clock, well below a burst of noise. */
#define STEPS 16384
#define MOST_PARTS 8

/* How often a timing is begun that another task interrupts. */
#define ATTEMPTS 4

/* Jumps per timing. */
#define JUMPS 16384

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
	 * One that the TLBs hold window by window may be large; prefetchers fetch it fast in
	 * the order of addresses.  Twice, since some caches keep only lines that were used
	 * again.
	 */
	if (chase->layout.by_block && chase->lines > STEPS)
		for (unsigned i = 0; i < 2; i++)
			chase_read(chase);
	else
		chase_time(run, access, whole);
	return 0;
}

/* The median of those that are numbers; NAN of none. */
static double median_of_known(const double *values, size_t n)
{
	double known[MOST_PARTS];
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		if (!isnan(values[i]))
			known[count++] = values[i];
	return count ? median(known, count) : NAN;
}

/* ns per access of one part; NAN if another task had the CPU during it. */
static double time_part(struct chase_run *run, enum chase_access access, size_t steps)
{
	const uint64_t before = load_switches();
	double ns = chase_time(run, access, steps);

	return load_switches() == before ? ns : NAN;
}

/*
 * Time the chains (2, or 1 alone), which are linked, in alternating parts, so that what
 * disturbs one disturbs the other too; chain number `first` begins.  `seed` is that of
 * overlapped updates.  ns gets the median over the parts of the ns per access, for each
 * chain: NAN if each part was interrupted.  Returns 0, or -1 with errno ENOTSUP: this CPU
 * has no such access.
 */
static int time_access(const struct chase *chases, unsigned count, enum chase_access access,
		       uint64_t seed, unsigned first, double *ns)
{
	double parts_ns[2][MOST_PARTS];
	struct chase_run runs[2];
	size_t parts = chases[0].lines / STEPS, steps = STEPS;
	unsigned which;

	parts = parts < 1 ? 1 : parts > MOST_PARTS ? MOST_PARTS : parts;
	/* Flushed lines are in the caches again after one visit. */
	if (access == CHASE_FLUSHED && chases[0].lines < STEPS)
		steps = chases[0].lines;
	for (unsigned i = 0; i < count; i++)
		runs[i] = chase_start(&chases[i], seed);
	/*
	 * Chains too large for the private caches have several parts, and need no second
	 * warm-up in between: nothing of them would remain there.
	 */
	for (size_t part = 0; part < parts; part++)
		for (unsigned i = 0; i < count; i++) {
			which = (i + first) % count;
			if (part == 0 && warm(&runs[which], access) != 0)
				return -1;
			parts_ns[which][part] = time_part(&runs[which], access, steps);
		}
	for (unsigned i = 0; i < count; i++)
		ns[i] = median_of_known(parts_ns[i], parts);
	return 0;
}

/*
 * As time_access(), again if a chain was interrupted in all its parts: a timing with
 * another task's time in it would make a walk of 25 ns one of 250.  ns is NAN if that
 * is so each time.
 */
static int time_undisturbed(const struct chase *chases, unsigned count, enum chase_access access,
			    uint64_t seed, const struct point *point, struct machine *machine,
			    double *ns)
{
	machine->timings++;
	for (unsigned i = 0; i < ATTEMPTS; i++) {
		if (time_access(chases, count, access, seed, point->number & 1, ns) != 0)
			return -1;
		if (!isnan(ns[0]) && (count < 2 || !isnan(ns[1])))
			return 0;
	}
	machine->interrupted++;
	return 0;
}

/* ns per jump of a linked chain; NAN if another task had the CPU in each attempt. */
static double time_code(const struct code *code, struct machine *machine)
{
	uint64_t before;
	double ns;

	machine->timings++;
	for (unsigned i = 0; i < ATTEMPTS; i++) {
		before = load_switches();
		ns = code_time(code, JUMPS);
		if (load_switches() == before)
			return ns;
	}
	machine->interrupted++;
	return NAN;
}

/* Time two chains of jumps.  Returns 0, or -1 with errno set. */
static int time_jumps(const struct point *point, const struct chase chases[2],
		      struct machine *machine, double ns[2])
{
	const struct arena *const arenas[2] = { &point->memory->apart, &point->memory->packed };
	struct code code;
	unsigned which;

	for (unsigned i = 0; i < 2; i++) {
		which = (i + point->number) & 1;
		code = (struct code){
			.memory = chases[which].memory,
			.bytes = arenas[which]->pages * arenas[which]->page_bytes,
			.stride = chases[which].layout.stride, .lines = chases[which].lines,
		};
		if (code_link(&code, chases[which].order, &machine->seed) != 0)
			return -1;
		ns[which] = time_code(&code, machine);
	}
	return 0;
}

/* Add what was timed; nothing if that was interrupted. */
static int add(struct samples *samples, const struct point *point, enum chase_access access,
	       const double ns[2])
{
	if (isnan(ns[0]) || (isnan(ns[1]) && !point->series->alone))
		return 0;
	return samples_add(samples, (struct sample){
		.probe = point->group->probe, .layout = point->series->name,
		.access = access_names[access], .page_size_bytes = point->pages->bytes,
		.spacing_bytes = point->series->layout.spacing, .lines = point->lines,
		.repetition = point->number, .ns = ns[0], .packed_ns = ns[1],
	});
}

int point_time(const struct point *point, struct machine *machine, struct samples *samples)
{
	const uint64_t state = order_random(&machine->seed);
	double ns[2] = { NAN, NAN };
	struct chase chases[2];
	unsigned count = chain_memory_chases(point->memory, machine, point->series, point->lines,
					     chases);

	if (point->group == &groups[GROUP_CODE])
		return time_jumps(point, chases, machine, ns) != 0 ?
			       -1 : add(samples, point, CHASE_SERIAL, ns);
	/* Linking takes as long as timing; the same chain may be timed in the next sweep too. */
	for (unsigned i = 0; i < count && point->memory->linked != point->lines; i++)
		chase_link(&chases[i], &machine->seed);
	point->memory->linked = point->lines;
	if (point->group == &groups[GROUP_RESIDENCY])
		return residency_half_life(&chases[0], state, ns) != 0 ?
			       -1 : add(samples, point, CHASE_SERIAL, ns);
	for (unsigned access = 0; access < ACCESSES; access++) {
		if (!(point->group->accesses & 1u << access))
			continue;
		if (time_undisturbed(chases, count, access, state, point, machine, ns) != 0 ||
		    add(samples, point, access, ns) != 0)
			return -1;
	}
	return 0;
}
