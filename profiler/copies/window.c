/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "window.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "dataflow.h"
#include "window_models.h"
#include "window_state.h"

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
