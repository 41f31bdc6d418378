/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "plan.h"

#include <errno.h>
#include <string.h>

#include "clock.h"
#include "fault.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* Dense around the sizes that first-level (48..128) and second-level (512..4096) TLBs have. */
static const uint32_t base_ladder[] = {
	8, 16, 32, 48, 56, 64, 72, 80, 88, 96, 104, 112, 128, 160, 208, 272, 352, 448, 512, 576,
	640, 768, 896, 1024, 1152, 1280, 1408, 1536, 1664, 1792, 1920, 2048, 2176, 2304, 2560,
	2816, 3072, 3584, 4096, 6144, 8192, 16384,
};

/*
 * Far beyond the TLBs, a walk costs more the farther its page-table entries are.
 * Nothing between 16384 and 65536: there the lines alone about fill a 2 MiB
 * cache, and which sets they crowd would be taken for translation.
 */
static const uint32_t middle_ladder[] = { 65536 };
static const uint32_t far_ladder[] = { 262144 };

/*
 * Chains with a line per base page, in huge pages: what does the TLB hold when
 * the guest has huge pages but its hypervisor backs them with base pages?
 */
static const uint32_t dense_ladder[] = { 64, 1024, 4096, 8192, 16384, 65536, 262144 };

static const uint32_t huge_ladder[] = {
	8, 12, 16, 20, 24, 28, 32, 36, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 128, 160, 208,
	272, 384, 512, 640, 768, 896, 1024, 1152, 1280, 1408, 1536, 1664, 1792, 1920, 2048, 2304,
	2560, 3072, 4096,
};

/* The least memory worth measuring in ends here, beyond second levels of 2048 entries. */
#define LEAST_FOOTPRINT 4096

#define BASE_FAULT_PAGES 1024
#define HUGE_FAULT_PAGES 8
#define FAULT_SAMPLES 24

struct step {
	const char *name;
	const char *layout;
	const uint32_t *ladder;
	size_t count;
	unsigned sweeps, per_arena;
	int dense;
	double touch_share;
	double begin, end;	/* share of the page size's time; usually it ends earlier */
};

static const struct step base_steps[] = {
	{ "near", "spread", base_ladder, COUNT(base_ladder), 40, 2, 0, 0.5, 0.05, 0.45 },
	/* Beyond the private caches neighbours disturb; only more sweeps help. */
	{ "middle", "spread", middle_ladder, COUNT(middle_ladder), 32, 8, 0, 0.5, 0.45, 0.7 },
	{ "far", "spread", far_ladder, COUNT(far_ladder), 12, 4, 0, 0.5, 0.7, 1.0 },
};

static const struct step huge_steps[] = {
	{ "dense", "dense", dense_ladder, COUNT(dense_ladder), 9, 9, 1, 0.5, 0.05, 0.4 },
	{ "spread", "spread", huge_ladder, COUNT(huge_ladder), 24, 24, 0, 0.25, 0.4, 1.0 },
};

static struct sweep_group first_group(const struct sweep_machine *machine)
{
	return (struct sweep_group){
		.name = "near", .layout = "spread", .method = ARENA_BASE,
		.page_bytes = machine->base_bytes, .spacing = machine->base_bytes,
	};
}

size_t plan_least_bytes(const struct sweep_machine *machine)
{
	const struct sweep_group group = first_group(machine);

	return sweep_bytes(machine, &group, LEAST_FOOTPRINT);
}

/* Turns a step's share into the whole plan's. */
struct span {
	struct sweep_machine *machine;
	double from, width;
	void (*progress)(void *closure, double share);
	void *closure;
};

static void report(void *closure, double share)
{
	const struct span *span = closure;

	span->progress(span->closure, span->from + share * span->width);
}

static int run_faults(const struct plan *plan, const struct sweep_machine *machine,
		      enum arena_method method, struct samples *samples)
{
	int base = method == ARENA_BASE;
	size_t limit = base ? machine->memory_limit : machine->huge_limit;
	size_t pages = base ? BASE_FAULT_PAGES : HUGE_FAULT_PAGES;
	uint64_t deadline = plan->start_ns + plan->limit_ns / 20;
	char key[48];
	double ns;

	if (pages > limit / plan->page_bytes)
		pages = limit / plan->page_bytes;
	snprintf(key, sizeof(key), "skipped_%zu_fault", plan->page_bytes);
	for (unsigned i = 0; i < FAULT_SAMPLES && (i == 0 || clock_ns() < deadline); i++) {
		ns = fault_ns(method, plan->page_bytes, pages);
		if (ns < 0) {
			samples_note(samples, key, "%s", errno == ENODATA ?
				     "the kernel did not give pages of this size" :
				     strerror(errno));
			return 0;
		}
		/* The first one also pays for page tables and for memory new to the guest. */
		if (i > 0 && samples_add(samples, (struct sample){
				.probe = "fault", .page_bytes = plan->page_bytes,
				.pages = pages, .repetition = i - 1, .ns = ns }) != 0)
			return -1;
	}
	return 0;
}

int plan_run(const struct plan *plan, struct sweep_machine *machine, struct samples *samples)
{
	int base = plan->page_bytes == machine->base_bytes;
	const struct step *step = base ? base_steps : huge_steps;
	size_t count = base ? COUNT(base_steps) : COUNT(huge_steps);
	enum arena_method method = base ? ARENA_BASE : machine->huge_method;
	struct sweep_machine own = *machine;
	struct sweep_group group = first_group(machine);
	struct span span = {
		.progress = machine->progress, .closure = machine->closure,
	};
	unsigned repetition = 0;

	own.progress = report;
	own.closure = &span;
	if (run_faults(plan, machine, method, samples) != 0)
		return -1;
	for (const struct step *end = step + count; step < end; step++) {
		span.from = (plan->done + step->begin) / plan->sizes;
		span.width = (step->end - step->begin) / plan->sizes;
		group.name = step->name;
		group.layout = step->layout;
		group.method = method;
		group.page_bytes = plan->page_bytes;
		group.spacing = step->dense ? machine->base_bytes : plan->page_bytes;
		group.footprints = step->ladder;
		group.footprint_count = step->count;
		group.sweeps = step->sweeps;
		group.sweeps_per_arena = step->per_arena;
		group.touch_share = step->touch_share;
		group.first_repetition = repetition;
		group.deadline_ns = plan->start_ns +
				    (uint64_t)((double)plan->limit_ns * step->end);
		if (sweep_run(&own, &group, samples) != 0)
			return -1;
		repetition += step->sweeps;
	}
	machine->seed = own.seed;
	return 0;
}
