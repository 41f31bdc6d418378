/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "window.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "code_block.h"
#include "dataflow.h"
#include "followed.h"
#include "timing/config.h"
#include "window_state.h"

/* What the callbacks of the model, which have no context, are about. */
static struct windows *current;

/* Do the cores' caches follow what the copy does now? */
static bool fills_caches(const struct windows *windows)
{
	return windows->modelling || warm_up_fills_caches(&windows->warm_up, window_warmed(windows));
}

/* A walk for a base page, which the kernel clears if this is its first use. */
static void note_cleared(struct windows *windows, uint64_t address, uint64_t time)
{
	if (fills_caches(windows) && timed_cores_are_new_to(&windows->timed, address, time) &&
	    fresh_pages_have(&windows->fresh, address))
		timed_cores_cleared(&windows->timed, address);
}

static void missed(enum tlb_size size, uint64_t address, enum tlb_side side, bool walk)
{
	struct windows *windows = current;
	const struct tlb_model *model = &windows->feed.model;

	if (walk && size == TLB_BASE && side != TLB_FETCH && windows->dram)
		window_dram_walk(windows->dram, address);
	if (windows->counting)
		attribution_missed(windows->attribution, size, address, side, walk, model->where);
	if (side == TLB_FETCH || !windows->options->timed)
		return;
	if (walk && size == TLB_BASE)
		note_cleared(windows, address, model->when);
	if (windows->modelling)
		timed_cores_missed(&windows->timed, size, address, walk, model->when);
	if (walk)
		timed_cores_walked(&windows->timed, size, address, model->when);
}

/* Of a core, for timed_cores_init(). */
static void window_models_waited(bool huge, uint64_t address, ticks time)
{
	if (current->counting)
		attribution_waited(current->attribution, huge ? TLB_HUGE : TLB_BASE, address, time);
}

/* The callbacks of models have no context: they are about this window from now on. */
static void window_models_are_of(struct windows *windows)
{
	current = windows;
	windows->feed.model.missed = missed;
}

/* What follows is measured. */
static void window_models_count(struct windows *windows)
{
	tlb_model_flush(&windows->feed.model);
	memcpy(windows->before, windows->feed.model.counts, sizeof(windows->before));
	windows->counting = true;
	if (windows->dram)
		window_dram_count(windows->dram);
	windows->measured_from = windows->feed.clock;
	windows->row.warm_references = windows->feed.clock;
	windows->row.instructions = 0;
}

/* The cores see what follows, until they are stopped; the models report misses in time. */
static void window_models_time(struct windows *windows)
{
	if (!windows->options->timed)
		return;
	windows->modelling = true;
	tlb_model_hold(&windows->feed.model, true);
}

static void window_models_stop(struct windows *windows)
{
	if (!windows->modelling)
		return;
	windows->modelling = false;
	tlb_model_hold(&windows->feed.model, false);
}

/* What follows is timed; it took the time that the row has then. */
static void window_models_start_clock(struct windows *windows)
{
	windows->timed_from = windows->feed.clock;
	for (uint32_t core = 0; windows->modelling && core < TLB_SIZES; core++)
		windows->since[core] = timed_cores_time(&windows->timed, core);
}

static void window_models_read_clock(struct windows *windows)
{
	const uint64_t references = windows->feed.clock - windows->timed_from;

	if (!windows->modelling)
		return;
	windows->row.timed = true;
	windows->row.timed_references += references;
	for (uint32_t core = 0; core < TLB_SIZES; core++) {
		const ticks time = timed_cores_time(&windows->timed, core) - windows->since[core];

		windows->row.time[core] += time;
		if (references)
			windows->timed.pace[core] = time / references;
	}
}

/* All models see an executed block. */
static void window_models_execute(struct windows *windows, const struct code_block *block,
			   const uint64_t *addresses, uint64_t next)
{
	tlb_feed_block(&windows->feed, block, addresses);
	if (windows->dram)
		window_dram_execute(windows->dram, block, addresses);
	attribution_executed(windows->attribution, block, addresses, next);
	windows->instructions += block->instruction_count;
	windows->row.instructions += block->instruction_count;
	if (windows->modelling && block->watched)
		timed_cores_execute(&windows->timed, block, block->watched, addresses, next);
	else if (windows->options->timed && fills_caches(windows))
		timed_cores_touch(&windows->timed, block, addresses);
}

static void subtract(struct tlb_counts *to, const struct tlb_counts *now,
		     const struct tlb_counts *before)
{
	to->l1_misses = now->l1_misses - before->l1_misses;
	to->stlb_hits = now->stlb_hits - before->stlb_hits;
	to->stlb_misses = now->stlb_misses - before->stlb_misses;
	to->unknown = now->unknown - before->unknown;
}

/* What was counted is a row; windows->failed if there is no memory for it. */
static void window_models_add_row(struct windows *windows, const struct followed *followed)
{
	struct window_row *row = &windows->row;

	tlb_model_flush(&windows->feed.model);
	if (windows->dram)
		window_dram_end(windows->dram);
	row->references = windows->feed.clock - windows->measured_from;
	row->followed = *followed;
	for (int size = 0; size < TLB_SIZES; size++)
		for (int side = 0; side < TLB_SIDES; side++)
			subtract(&row->counts[size][side], &windows->feed.model.counts[size][side],
				 &windows->before[size][side]);
	if (window_rows_add(&windows->rows, row) < 0)
		windows->failed = true;
}

/* References that leave the queue at once. */
#define CHUNK 16384u
static uint64_t kept_amount(const struct windows *windows)
{
	return window_amount(windows->kept.references, windows->kept.instructions);
}

/* The oldest blocks leave the queue and warm the TLBs, until this much is left. */
static void warm_with_kept(struct windows *windows, uint64_t rest)
{
	const struct kept_block *oldest;

	while (kept_amount(windows) > rest || !rest) {
		oldest = kept_blocks_take(&windows->kept);
		if (!oldest)
			return;
		window_models_execute(windows, oldest->block, oldest->addresses, oldest->next);
	}
}

static bool executed(void *context, const struct code_block *block, const uint64_t *addresses,
		     uint64_t next)
{
	struct windows *windows = context;

	if (kept_blocks_add(&windows->kept, block, addresses, next) < 0) {
		windows->failed = true;
		return false;
	}
	if (windows->warm)
		return kept_amount(windows) < window_timed_part(windows);
	if (kept_amount(windows) < window_timed_part(windows) + CHUNK)
		return true;
	warm_with_kept(windows, window_timed_part(windows));
	if (window_warmed(windows) >= windows->warm_up.step_ends)
		windows->warm = warm_up_step(&windows->warm_up, &windows->feed.model,
					     window_warmed(windows));
	return !windows->warm;
}

/* Give the models what was kept: the last part of what the copy did. */
static void model_kept(struct windows *windows)
{
	const uint64_t most = window_timed_part(windows);
	const struct kept_block *oldest;
	uint64_t rest;

	/* Of a short window, half warms the TLBs; the rest is as in others. */
	warm_up_ends(&windows->warm_up);
	rest = kept_amount(windows);
	if (rest < most)
		warm_with_kept(windows, rest - rest / 2);
	if (window_warmed(windows) >= windows->options->least_warm)
		window_models_time(windows);
	rest = kept_amount(windows);
	warm_with_kept(windows, rest - (rest < most ? rest * windows->options->core_warm / most :
						      windows->options->core_warm));
	window_models_count(windows);
	window_models_start_clock(windows);
	while ((oldest = kept_blocks_take(&windows->kept)))
		window_models_execute(windows, oldest->block, oldest->addresses, oldest->next);
	if (windows->feed.clock > windows->timed_from)
		window_models_read_clock(windows);
	window_models_stop(windows);
}

static void *translated(void *context, const struct code_block *block,
			const struct instruction *decoded)
{
	const struct windows *windows = context;

	return windows->options->timed ? dataflow_of(block, decoded) : NULL;
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
		.executed = executed, .context = windows,
	};
	windows->attribution = attribution_make();
	if (options->dram.l2_bytes)
		windows->dram = window_dram_make(options);
	if (!windows->attribution || (options->dram.l2_bytes && !windows->dram) || tlb_feed_init(&windows->feed, options) < 0 ||
	    (options->timed && timed_cores_init(&windows->timed, options, window_models_waited) < 0)) {
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
	window_dram_free(windows->dram);
	fresh_pages_free(&windows->fresh);
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

	windows->row = (struct window_row){
		.window = start->number, .pid = copy->program, .tid = copy->thread,
		.at_cpu_ns = start->at_cpu_ns,
	};
	tlb_feed_reset(&windows->feed, options);
	window_models_are_of(windows);
	windows->counting = windows->modelling = windows->failed = false;
	windows->warm = options->warm == 0;
	windows->instructions = 0;
	if (windows->dram)
		window_dram_begin(windows->dram, start->number);
	warm_up_begin(&windows->warm_up, options);
	kept_blocks_clear(&windows->kept);
	if (options->timed)
		timed_cores_begin(&windows->timed, copy->program, start->at_cpu_ns,
				  resident_bytes(copy->pid));
	if (options->timed) {
		fresh_pages_free(&windows->fresh);
		fresh_pages_read(&windows->fresh, copy->pid);
	}
	return attribution_begin(windows->attribution, copy, start->number);
}

int windows_end(struct windows *windows, const struct followed *followed)
{
	window_models_are_of(windows);
	model_kept(windows);
	window_models_stop(windows);
	window_models_add_row(windows, followed);
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
	if (windows->dram && window_dram_write(windows->dram, folder, worker) < 0)
		return -1;
	return attribution_write(windows->attribution, folder, worker);
}
