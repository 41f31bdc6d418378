/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plan.h"

#include <errno.h>
#include <math.h>

#include "clock.h"
#include "fault.h"
#include "chain_memory.h"
#include "load.h"
#include "sweep.h"

/* The smallest footprint worth measuring, beyond second levels of 2048 entries. */
#define LEAST_FOOTPRINT 4096

/* Enough pages that reading the clock does not matter, but little memory to clear. */
#define FAULT_BYTES ((size_t)16 << 20)
#define FAULT_PAGES 1024
#define FAULT_ATTEMPTS 4

/* One group on pages of one size. */
struct task {
	enum group_id id;
	const struct page_kind *pages;
};

#define MOST_TASKS (GROUP_COUNT * PLAN_MOST_SIZES)

size_t plan_least_bytes(const struct plan *plan, const struct machine *machine)
{
	struct series series[MOST_SERIES];

	if (!(plan->groups & 1u << GROUP_NEAR) || plan->lines)
		return 0;
	group_series(GROUP_NEAR, machine, machine->base.bytes, series);
	return chain_memory_bytes(machine, series, &machine->base, LEAST_FOOTPRINT);
}

static int is_for(enum group_pages wanted, const struct machine *machine,
		  const struct page_kind *pages)
{
	switch (wanted) {
	case PAGES_BASE:
		return pages->bytes == machine->base.bytes;
	case PAGES_LARGER:
		return pages->bytes != machine->base.bytes;
	default:
		return 1;
	}
}

static size_t list_tasks(const struct plan *plan, const struct machine *machine,
			 struct task tasks[MOST_TASKS])
{
	size_t n = 0;

	for (enum group_id id = 0; id < GROUP_COUNT; id++) {
		if (!(plan->groups & 1u << id))
			continue;
		if (id == GROUP_CYCLES || groups[id].pages == PAGES_PACKED) {
			tasks[n++] = (struct task){ id, &machine->packed };
			continue;
		}
		for (size_t i = 0; i < plan->size_count; i++)
			if (is_for(groups[id].pages, machine, &plan->sizes[i]))
				tasks[n++] = (struct task){ id, &plan->sizes[i] };
	}
	return n;
}

static int run_cycles(unsigned sweeps, struct machine *machine, struct samples *samples)
{
	size_t before;

	for (unsigned i = 0; i < sweeps && !machine->cpu_gone; i++) {
		before = samples->count;
		if (sweep_begin(machine, samples) < 0 && samples->failed)
			return -1;
		sweep_end(machine, samples, before);
	}
	return 0;
}

/* As fault_time(), again if another task had the CPU: *clean is 0 if that was so each time. */
static int time_pages(const struct page_kind *pages, size_t count, struct machine *machine,
		      double *fault_ns, double *unmap_ns, int *clean)
{
	uint64_t before;

	machine->timings++;
	for (unsigned i = 0; i < FAULT_ATTEMPTS; i++) {
		before = load_switches();
		if (fault_time(pages->method, pages->bytes, count, fault_ns, unmap_ns) != 0)
			return -1;
		*clean = load_switches() == before;
		if (*clean)
			return 0;
	}
	machine->interrupted++;
	return 0;
}

/* One sweep of faults.  Returns 0, or -1 with errno set: 0 if the CPU is gone. */
static int time_faults(const struct page_kind *pages, size_t count, struct machine *machine,
		       struct samples *samples)
{
	size_t before = samples->count;
	int number = sweep_begin(machine, samples);
	struct sample sample = {
		.probe = "fault", .page_size_bytes = pages->bytes, .lines = count, .packed_ns = NAN,
		.repetition = (unsigned)number,
	};
	double unmap_ns;
	int clean = 0;

	if (number < 0 ||
	    time_pages(pages, count, machine, &sample.ns, &unmap_ns, &clean) != 0 ||
	    (clean && samples_add(samples, sample) != 0))
		return -1;
	sample.probe = "unmap";
	sample.ns = unmap_ns;
	if (clean && samples_add(samples, sample) != 0)
		return -1;
	sweep_end(machine, samples, before);
	return 0;
}

static int run_faults(const struct page_kind *pages, unsigned sweeps, uint64_t deadline_ns,
		      struct machine *machine, struct samples *samples)
{
	size_t count = FAULT_BYTES / pages->bytes;
	double unused[2];
	char text[120];
	int rc;

	count = count > FAULT_PAGES ? FAULT_PAGES : count ? count : 1;
	if (count > pages->limit_bytes / pages->bytes)
		count = pages->limit_bytes / pages->bytes;
	/* The first time includes the cost of page tables and of memory new to the guest. */
	if (count == 0 || fault_time(pages->method, pages->bytes, count, unused, unused + 1) != 0) {
		sweep_note(samples, "skipped", pages->bytes, "fault",
			   sweep_reason(count ? errno : ENOMEM, pages));
		return 0;
	}
	for (unsigned i = 0; i < sweeps && !machine->cpu_gone; i++) {
		rc = clock_ns() < deadline_ns ? time_faults(pages, count, machine, samples) : -1;
		if (samples->failed)
			return -1;
		if (rc == 0 || machine->cpu_gone)
			continue;
		snprintf(text, sizeof(text), "%u of %u sweeps: %s", sweeps - i, sweeps,
			 clock_ns() < deadline_ns ? sweep_reason(errno, pages) : "the time limit");
		sweep_note(samples, "dropped", pages->bytes, "fault", text);
		return 0;
	}
	return 0;
}

static int run_chains(const struct plan *plan, const struct task *task, uint64_t deadline_ns,
		      struct machine *machine, struct samples *samples)
{
	const struct group *group = &groups[task->id];
	struct series series[MOST_SERIES];
	const struct sweep sweep = {
		.group = group, .pages = task->pages, .series = series,
		.series_count = group_series(task->id, machine, task->pages->bytes, series),
		.sweeps = plan->sweeps ? plan->sweeps : group->sweeps,
		.deadline_ns = deadline_ns,
	};

	/* The regions' number of lines is constant. */
	for (size_t i = 0; plan->lines && task->id != GROUP_REGIONS && i < sweep.series_count; i++) {
		series[i].ladder = plan->lines;
		series[i].points = plan->line_count;
	}
	return sweep_run(&sweep, machine, samples);
}

/* Turns a task's share into the whole plan's. */
struct span {
	void (*progress)(void *closure, double share);
	void *closure;
	double from, width;
};

static void report(void *closure, double share)
{
	const struct span *span = closure;

	span->progress(span->closure, span->from + share * span->width);
}

static int run_task(const struct plan *plan, const struct task *task, uint64_t deadline_ns,
		    struct machine *machine, struct samples *samples)
{
	unsigned sweeps = plan->sweeps ? plan->sweeps : groups[task->id].sweeps;

	switch (task->id) {
	case GROUP_CYCLES:
		return run_cycles(sweeps, machine, samples);
	case GROUP_FAULTS:
		return run_faults(task->pages, sweeps, deadline_ns, machine, samples);
	default:
		return run_chains(plan, task, deadline_ns, machine, samples);
	}
}

int plan_run(const struct plan *plan, struct machine *machine, struct samples *samples)
{
	struct task tasks[MOST_TASKS];
	size_t count = list_tasks(plan, machine, tasks);
	struct span span = { .progress = machine->progress, .closure = machine->closure };
	double whole = 0, left, weight;
	uint64_t now;
	int rc = 0;

	for (size_t i = 0; i < count; i++)
		whole += groups[tasks[i].id].weight;
	left = whole;
	machine->progress = report;
	machine->closure = &span;
	for (size_t i = 0; i < count && rc == 0 && !machine->cpu_gone; i++) {
		weight = groups[tasks[i].id].weight;
		span.from = (whole - left) / whole;
		span.width = weight / whole;
		now = clock_ns();
		if (now < plan->end_ns)
			now += (uint64_t)((double)(plan->end_ns - now) * weight / left);
		rc = run_task(plan, &tasks[i], now, machine, samples);
		left -= weight;
		report(&span, 1);
	}
	machine->progress = span.progress;
	machine->closure = span.closure;
	return rc;
}
