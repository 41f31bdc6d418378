/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "sweep.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "clock.h"
#include "code.h"
#include "cpu.h"
#include "cycles.h"
#include "chain_memory.h"
#include "point.h"

void sweep_note(struct samples *samples, const char *what, size_t page_bytes, const char *name,
		const char *text)
{
	char key[48];

	if (page_bytes)
		snprintf(key, sizeof(key), "%s_%zu_%s", what, page_bytes, name);
	else
		snprintf(key, sizeof(key), "%s_%s", what, name);
	samples_note(samples, key, "%s", text);
}

const char *sweep_reason(int error, const struct page_kind *pages)
{
	switch (error) {
	case ENODATA:
		return "the kernel did not provide pages of this size";
	case ETIME:
		return "no time was left";
	case ENOMEM:
		return pages->method == ARENA_HUGETLB ? "the hugetlb pool has too few free pages" :
							"not enough memory or address space";
	case EACCES:
	case EPERM:
		return "this system refuses to execute memory that was written";
	case ENOTSUP:
		return "the instructions for it are not known on this CPU";
	default:
		return strerror(error);
	}
}

static void note(struct samples *samples, const char *what, const struct sweep *sweep,
		 const char *text)
{
	sweep_note(samples, what, sweep->pages->bytes, sweep->group->name, text);
}

static void note_moved(struct machine *machine, struct samples *samples, enum cpu_state state)
{
	machine->cpu_gone |= state == CPU_GONE;
	samples_note(samples, state == CPU_GONE ? "moved_cpu" : "moved_cpu_briefly", "%s",
		     state == CPU_GONE ?
		     "the CPU went offline: nothing was measured after that" :
		     "the CPU was offline for a while: what was measured in between is dropped");
}

int sweep_begin(struct machine *machine, struct samples *samples)
{
	enum cpu_state state = cpu_check(machine->cpu);

	errno = 0;
	if (state != CPU_SAME)
		note_moved(machine, samples, state);
	if (machine->cpu_gone)
		return -1;
	if (samples_add(samples, (struct sample){
			.probe = "cycles", .repetition = machine->sweeps, .ns = cycles_ns(),
			.packed_ns = NAN }) != 0)
		return -1;
	return (int)machine->sweeps++;
}

void sweep_end(struct machine *machine, struct samples *samples, size_t count)
{
	enum cpu_state state = cpu_check(machine->cpu);

	if (state == CPU_SAME)
		return;
	note_moved(machine, samples, state);
	samples->count = count;
}

/* The memory that is open, and of which series. */
struct site {
	struct chain_memory memory;
	const struct series *series;	/* NULL: none is open */
	unsigned since;			/* sweep */
	size_t first_sample;
};

/*
 * Unmap the memory.  The kernel may split or join pages at any time, so measurements count
 * only if the pages are unchanged.  Returns 0, or -1 with errno ENODATA.
 */
static int leave(struct site *site, const struct sweep *sweep, struct samples *samples)
{
	int holds = !site->series || chain_memory_holds(&site->memory);

	chain_memory_close(&site->memory);
	site->series = NULL;
	if (holds)
		return 0;
	if (samples->count > site->first_sample)
		samples->count = site->first_sample;
	note(samples, "stopped", sweep, "the kernel changed the page size");
	errno = ENODATA;
	return -1;
}

static void note_usable(struct samples *samples, const struct sweep *sweep,
			const struct series *series, size_t usable)
{
	char text[120];

	if (usable == series->points)
		return;
	snprintf(text, sizeof(text), "up to %u of %u lines: memory or time did not suffice",
		 series->ladder[usable - 1], series->ladder[series->points - 1]);
	note(samples, "limited", sweep, text);
}

/* Switch to memory of the series.  Returns 0, or -1 with errno set. */
static int enter(struct site *site, const struct sweep *sweep, const struct series *series,
		 unsigned number, struct machine *machine, struct samples *samples)
{
	size_t points;

	if (site->series == series && number - site->since < sweep->group->sweeps_per_arena)
		return 0;
	if (leave(site, sweep, samples) != 0)
		return -1;
	points = chain_memory_points(machine, series, sweep->pages);
	if (sweep->group == &groups[GROUP_CODE])
		while (points > 0 && code_reach() > 0 &&
		       layout_span(&series->layout, series->ladder[points - 1]) > code_reach())
			points--;
	if (points == 0) {
		errno = ENOMEM;
		return -1;
	}
	if (chain_memory_open(&site->memory, machine, series, sweep->pages, points,
			sweep->group->touch_share, sweep->deadline_ns) != 0)
		return -1;
	note_usable(samples, sweep, series, site->memory.usable);
	site->series = series;
	site->since = number;
	site->first_sample = samples->count;
	return 0;
}

/* Sweep number `n` of the group over one series.  Returns 0, or -1 with errno set. */
static int sweep_series(const struct sweep *sweep, struct site *site, unsigned n, unsigned number,
			struct machine *machine, struct samples *samples)
{
	struct point point = {
		.group = sweep->group, .pages = sweep->pages, .series = site->series,
		.memory = &site->memory, .number = number,
	};
	size_t usable = site->memory.usable;

	for (size_t i = 0; i < usable; i++) {
		if (clock_ns() >= sweep->deadline_ns) {
			errno = ETIME;
			return -1;
		}
		/* Every other sweep runs downwards, against drift within a sweep. */
		point.lines = point.series->ladder[n & 1 ? usable - 1 - i : i];
		if (point_time(&point, machine, samples) != 0)
			return -1;
	}
	return 0;
}

/* One sweep over all series.  Returns 0, or -1 with errno set. */
static int sweep_once(const struct sweep *sweep, struct site *site, unsigned n,
		      struct machine *machine, struct samples *samples)
{
	size_t before = samples->count, measured = 0;
	int number = sweep_begin(machine, samples);
	const struct series *series;
	int rc = 0, error = 0, lacking = 0;

	if (number < 0)
		return -1;
	for (size_t i = 0; i < sweep->series_count && (rc == 0 || error == ENOMEM); i++) {
		series = &sweep->series[n & 1 ? sweep->series_count - 1 - i : i];
		rc = enter(site, sweep, series, n, machine, samples);
		if (rc == 0)
			rc = sweep_series(sweep, site, n, (unsigned)number, machine, samples);
		error = errno;
		measured += rc == 0;
		lacking |= rc != 0 && error == ENOMEM;
	}
	sweep_end(machine, samples, before);
	/* Chains that do not fit leave the others as they are. */
	if (lacking && measured > 0 && !samples->failed) {
		note(samples, "limited", sweep, sweep_reason(ENOMEM, sweep->pages));
		rc = error == ENOMEM ? 0 : rc;
	}
	errno = error;
	return rc;
}

int sweep_run(const struct sweep *sweep, struct machine *machine, struct samples *samples)
{
	const size_t before = samples->count;
	struct site site = { 0 };
	unsigned n;
	char text[80];
	int rc = 0, error = 0;

	for (n = 0; n < sweep->sweeps && rc == 0; n++) {
		rc = sweep_once(sweep, &site, n, machine, samples);
		error = errno;
		machine->progress(machine->closure, (n + 1) / (double)sweep->sweeps);
	}
	leave(&site, sweep, samples);
	if (samples->failed) {
		errno = ENOMEM;
		return -1;
	}
	if (rc == 0 || machine->cpu_gone)
		return 0;
	/* The sample of the cycle is not one of the group. */
	if (n == 1 && samples->count <= before + 1) {
		note(samples, "skipped", sweep, sweep_reason(error, sweep->pages));
		return 0;
	}
	snprintf(text, sizeof(text), "%u of %u sweeps: %s", sweep->sweeps - n + 1, sweep->sweeps,
		 error == ETIME ? "the time limit" : sweep_reason(error, sweep->pages));
	note(samples, "dropped", sweep, text);
	return 0;
}
