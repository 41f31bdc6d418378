/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "window.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attribution.h"
#include "engine/schedule.h"
#include "kept_blocks.h"
#include "timed_cores.h"
#include "tlb_feed.h"
#include "warm_up.h"
#include "window_options.h"
#include "window_rows.h"

/* Code with few references would make windows long: this many instructions count as one. */
#define MOST_INSTRUCTIONS 16u
/* References that leave the queue at once. */
#define CHUNK 16384u
/* Of a whole run, one part in this many references is timed; in the first, one in a tenth. */
#define WHOLE_PERIOD 5000000u
#define DENSE 10000000u

struct windows {
	const struct window_options *options;
	struct watcher watcher;
	struct tlb_feed feed;
	struct timed_cores timed;	/* if options->timed */
	struct attribution *attribution;
	struct window_row row;		/* of the current window */
	bool counting;			/* its measured part has begun */
	bool modelling;			/* the cores execute, too */
	bool warm;			/* the TLBs are: what is kept is the rest of the window */
	uint64_t instructions;		/* that the TLB models have seen */
	struct warm_up warm_up;
	uint64_t measured_from;		/* reference */
	struct tlb_counts before[TLB_SIZES][TLB_SIDES];
	struct tlb_counts views_before[TLB_MOST_VIEWS][TLB_SIDES];
	struct kept_blocks kept;
	/* Of a timed part: when it began, of each core, and with which reference. */
	ticks since[MOST_CORES];
	uint64_t timed_from;
	/* Of a whole run: where parts are timed, and when the current phase of one ends. */
	struct schedule schedule;
	uint64_t phase_ends, stretch_ends;
	bool failed;			/* memory ran out */
	struct window_rows rows;
};

/* What the callbacks of the model, which have no context, are about. */
static struct windows *current;

static void missed(enum tlb_size size, uint64_t address, enum tlb_side side, bool walk)
{
	struct windows *windows = current;
	const struct tlb_model *model = &windows->feed.model;

	if (windows->counting)
		attribution_missed(windows->attribution, size, address, side, walk, model->where);
	if (side == TLB_FETCH || !windows->options->timed)
		return;
	if (windows->modelling)
		timed_cores_missed(&windows->timed, size, address, walk, model->when);
	if (walk)
		timed_cores_walked(&windows->timed, size, address, model->when);
}

static void view_missed(uint32_t view, uint64_t address, enum tlb_side side, bool walk)
{
	if (side != TLB_FETCH)
		timed_cores_view_missed(&current->timed, view, address, walk,
					current->feed.model.when);
}

static void waited(bool huge, uint64_t address, ticks time)
{
	if (current->counting)
		attribution_waited(current->attribution, huge ? TLB_HUGE : TLB_BASE, address, time);
}

/* What follows is measured. */
static void start_counting(struct windows *windows)
{
	tlb_model_flush(&windows->feed.model);
	memcpy(windows->before, windows->feed.model.counts, sizeof(windows->before));
	for (uint32_t i = 0; i < windows->options->view_count; i++)
		memcpy(windows->views_before[i], tlb_view_counts(&windows->feed.views, i),
		       sizeof(windows->views_before[i]));
	windows->counting = true;
	windows->measured_from = windows->feed.clock;
	windows->row.warm_references = windows->feed.clock;
	windows->row.instructions = 0;
}

/* The cores see what follows: the models tell them of misses in time. */
static void start_modelling(struct windows *windows)
{
	if (!windows->options->timed)
		return;
	windows->modelling = true;
	tlb_model_hold(&windows->feed.model, true);
	windows->feed.views.missed = view_missed;
}

static void stop_modelling(struct windows *windows)
{
	if (!windows->modelling)
		return;
	windows->modelling = false;
	windows->feed.views.missed = NULL;
	tlb_model_hold(&windows->feed.model, false);
}

static void start_timing(struct windows *windows)
{
	windows->timed_from = windows->feed.clock;
	for (uint32_t core = 0; windows->modelling && core < windows->timed.count; core++)
		windows->since[core] = timed_cores_time(&windows->timed, core);
}

static void take_time(struct windows *windows)
{
	const uint64_t references = windows->feed.clock - windows->timed_from;

	if (!windows->modelling)
		return;
	windows->row.timed = true;
	windows->row.timed_references += references;
	for (uint32_t core = 0; core < windows->timed.count; core++) {
		const ticks time = timed_cores_time(&windows->timed, core) - windows->since[core];

		windows->row.time[core] += time;
		if (references)
			windows->timed.pace[core] = time / references;
	}
}

/* This many references and instructions, as references. */
static uint64_t amount(uint64_t references, uint64_t instructions)
{
	const uint64_t least = instructions / MOST_INSTRUCTIONS;

	return references > least ? references : least;
}

static uint64_t warmed(const struct windows *windows)
{
	return amount(windows->feed.clock, windows->instructions);
}

/* All models see an executed block. */
static void model(struct windows *windows, const struct code_block *block,
		  const uint64_t *addresses, uint64_t next)
{
	tlb_feed_block(&windows->feed, block, addresses);
	attribution_executed(windows->attribution, block, addresses, next);
	windows->instructions += block->instruction_count;
	windows->row.instructions += block->instruction_count;
	if (windows->modelling && block->watched)
		timed_cores_execute(&windows->timed, block, block->watched, addresses, next);
	else if (windows->options->timed && !windows->options->whole &&
		 warm_up_fills_caches(&windows->warm_up, warmed(windows)))
		timed_cores_touch(&windows->timed, block, addresses);
}

static uint64_t kept_amount(const struct windows *windows)
{
	return amount(windows->kept.references, windows->kept.instructions);
}

/* What a whole window keeps until the end. */
static uint64_t most_kept(const struct windows *windows)
{
	return windows->options->core_warm + windows->options->measured;
}

/* The oldest blocks leave the queue and warm the TLBs, until so much is left. */
static void warm_with_kept(struct windows *windows, uint64_t rest)
{
	const struct kept_block *oldest;

	while (kept_amount(windows) > rest || !rest) {
		oldest = kept_blocks_take(&windows->kept);
		if (!oldest)
			return;
		model(windows, oldest->block, oldest->addresses, oldest->next);
	}
}

static void subtract(struct tlb_counts *to, const struct tlb_counts *now,
		     const struct tlb_counts *before)
{
	to->l1_misses = now->l1_misses - before->l1_misses;
	to->stlb_hits = now->stlb_hits - before->stlb_hits;
	to->stlb_misses = now->stlb_misses - before->stlb_misses;
	to->unknown = now->unknown - before->unknown;
}

/*
 * A stretch of a whole run begins: a part of it is timed, at a random place; all of the first one,
 * which nothing comes before.
 */
static void start_stretch(struct windows *windows)
{
	const uint64_t now = windows->feed.clock, part = most_kept(windows);

	windows->stretch_ends = now + (now < DENSE ? WHOLE_PERIOD / 10 : WHOLE_PERIOD);
	if (now == 0) {
		start_modelling(windows);
		start_timing(windows);
		windows->phase_ends = windows->stretch_ends;
		return;
	}
	schedule_start(&windows->schedule, now, windows->stretch_ends - now, part);
	windows->phase_ends = schedule_next(&windows->schedule, now);
	windows->timed_from = UINT64_MAX;
}

/* What was counted since the last row is one, too. */
static void add_row(struct windows *windows, const struct followed *followed)
{
	struct window_row *row = &windows->row;

	tlb_model_flush(&windows->feed.model);
	row->references = windows->feed.clock - windows->measured_from;
	row->followed = *followed;
	for (int size = 0; size < TLB_SIZES; size++)
		for (int side = 0; side < TLB_SIDES; side++)
			subtract(&row->counts[size][side], &windows->feed.model.counts[size][side],
				 &windows->before[size][side]);
	for (uint32_t i = 0; i < windows->options->view_count; i++)
		for (int side = 0; side < TLB_SIDES; side++)
			subtract(&row->views[i][side],
				 &tlb_view_counts(&windows->feed.views, i)[side],
				 &windows->views_before[i][side]);
	if (window_rows_add(&windows->rows, row) < 0)
		windows->failed = true;
}

/* In each stretch the cores are warmed, and then timed. */
static void follow_schedule(struct windows *windows)
{
	static const struct followed enough = { .end = FOLLOW_ENOUGH };

	if (windows->feed.clock >= windows->stretch_ends) {
		if (windows->timed_from < windows->feed.clock)
			take_time(windows);
		stop_modelling(windows);
		add_row(windows, &enough);
		windows->row = (struct window_row){
			.window = windows->row.window + 1, .pid = windows->row.pid,
			.tid = windows->row.tid, .at_cpu_ns = windows->row.at_cpu_ns,
		};
		start_counting(windows);
		start_stretch(windows);
	} else if (windows->feed.clock < windows->phase_ends) {
		return;
	} else if (!windows->modelling) {
		start_modelling(windows);
		windows->phase_ends = windows->feed.clock + windows->options->core_warm;
	} else if (windows->timed_from == UINT64_MAX) {
		start_timing(windows);
		windows->phase_ends = windows->feed.clock + windows->options->measured;
	} else {
		take_time(windows);
		stop_modelling(windows);
		windows->phase_ends = UINT64_MAX;
	}
}

static bool executed(void *context, const struct code_block *block, const uint64_t *addresses,
		     uint64_t next)
{
	struct windows *windows = context;

	if (windows->options->whole) {
		model(windows, block, addresses, next);
		follow_schedule(windows);
		return !windows->failed;
	}
	if (kept_blocks_add(&windows->kept, block, addresses, next) < 0) {
		windows->failed = true;
		return false;
	}
	if (windows->warm)
		return kept_amount(windows) < most_kept(windows);
	if (kept_amount(windows) < most_kept(windows) + CHUNK)
		return true;
	warm_with_kept(windows, most_kept(windows));
	if (warmed(windows) >= windows->warm_up.step_ends)
		windows->warm = warm_up_step(&windows->warm_up, &windows->feed.model,
					     warmed(windows));
	return !windows->warm;
}

/* Give the models what was kept: the last that the copy did. */
static void model_kept(struct windows *windows)
{
	const uint64_t most = most_kept(windows);
	const struct kept_block *oldest;
	uint64_t rest;

	/* Of a short window, half warms the TLBs; the rest is as in others. */
	warm_up_ends(&windows->warm_up);
	rest = kept_amount(windows);
	if (rest < most)
		warm_with_kept(windows, rest - rest / 2);
	if (warmed(windows) >= windows->options->least_warm)
		start_modelling(windows);
	rest = kept_amount(windows);
	warm_with_kept(windows, rest - (rest < most ? rest * windows->options->core_warm / most :
						      windows->options->core_warm));
	start_counting(windows);
	start_timing(windows);
	while ((oldest = kept_blocks_take(&windows->kept)))
		model(windows, oldest->block, oldest->addresses, oldest->next);
	if (windows->feed.clock > windows->timed_from)
		take_time(windows);
	stop_modelling(windows);
}

static void *translated(void *context, const struct code_block *block,
			const struct instruction *decoded)
{
	const struct windows *windows = context;

	return windows->options->timed ? dataflow_of(block, decoded) : NULL;
}

static void mapped(void *context)
{
	struct windows *windows = context;

	attribution_mapped(windows->attribution);
}

static void forgotten(void *context, void *watched)
{
	(void)context;
	free(watched);
}

/* All blocks are about to be freed: what was kept points to them. */
static void clearing(void *context)
{
	struct windows *windows = context;

	warm_with_kept(windows, 0);
	if (windows->options->timed)
		timed_cores_forget(&windows->timed);
}

struct windows *windows_make(const struct window_options *options)
{
	struct windows *windows = calloc(1, sizeof(*windows));

	if (!windows)
		return NULL;
	windows->options = options;
	windows->watcher = (struct watcher){
		.translated = translated, .forgotten = forgotten, .clearing = clearing,
		.executed = executed, .mapped = mapped, .context = windows,
	};
	windows->attribution = attribution_make();
	if (!windows->attribution || tlb_feed_init(&windows->feed, options) < 0 ||
	    (options->timed && timed_cores_init(&windows->timed, options, waited) < 0)) {
		windows_free(windows);
		errno = ENOMEM;
		return NULL;
	}
	return windows;
}

void windows_free(struct windows *windows)
{
	if (!windows)
		return;
	if (windows->options->timed)
		timed_cores_free(&windows->timed);
	tlb_feed_free(&windows->feed);
	attribution_free(windows->attribution);
	window_rows_free(&windows->rows);
	kept_blocks_free(&windows->kept);
	free(windows);
}

const struct watcher *windows_watcher(struct windows *windows)
{
	return &windows->watcher;
}

/* Resident memory of a process, in bytes; 0: not known. */
static uint64_t resident_bytes(pid_t pid)
{
	unsigned long long size, resident = 0;
	char path[32];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/statm", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%llu %llu", &size, &resident) != 2)
		resident = 0;
	fclose(file);
	return resident * 4096;
}

int windows_begin(struct windows *windows, const struct copy *copy,
		  const struct window_start *start)
{
	const struct window_options *options = windows->options;

	current = windows;
	windows->row = (struct window_row){
		.window = start->number, .pid = copy->program, .tid = copy->thread,
		.at_cpu_ns = start->at_cpu_ns,
	};
	tlb_feed_reset(&windows->feed, options);
	windows->feed.model.missed = missed;
	windows->counting = windows->modelling = windows->failed = false;
	windows->warm = options->warm == 0;
	windows->instructions = 0;
	warm_up_begin(&windows->warm_up, options);
	kept_blocks_clear(&windows->kept);
	if (options->timed)
		timed_cores_begin(&windows->timed, copy->program, start->at_cpu_ns,
				  resident_bytes(copy->pid));
	if (options->whole) {
		start_counting(windows);
		start_stretch(windows);
	}
	return attribution_begin(windows->attribution, copy, start->number);
}

int windows_end(struct windows *windows, const struct followed *followed)
{
	current = windows;
	if (!windows->options->whole)
		model_kept(windows);
	else if (windows->modelling && windows->timed_from < windows->feed.clock)
		take_time(windows);
	stop_modelling(windows);
	add_row(windows, followed);
	attribution_end(windows->attribution);
	if (windows->failed) {
		errno = ENOMEM;
		return -1;
	}
	return 0;
}

int windows_write(struct windows *windows, const char *folder, uint32_t worker)
{
	if (window_rows_write(&windows->rows, windows->options, folder, worker) < 0)
		return -1;
	return attribution_write(windows->attribution, folder, worker);
}
