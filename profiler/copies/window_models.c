/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "window_models.h"

#include <string.h>

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

static void view_missed(uint32_t view, uint64_t address, enum tlb_side side, bool walk)
{
	if (side != TLB_FETCH)
		timed_cores_view_missed(&current->timed, view, address, walk,
					current->feed.model.when);
}

void window_models_waited(bool huge, uint64_t address, ticks time)
{
	if (current->counting)
		attribution_waited(current->attribution, huge ? TLB_HUGE : TLB_BASE, address, time);
}

void window_models_are_of(struct windows *windows)
{
	current = windows;
	windows->feed.model.missed = missed;
}

void window_models_count(struct windows *windows)
{
	tlb_model_flush(&windows->feed.model);
	memcpy(windows->before, windows->feed.model.counts, sizeof(windows->before));
	for (uint32_t i = 0; i < windows->options->view_count; i++)
		memcpy(windows->views_before[i], tlb_view_counts(&windows->feed.views, i),
		       sizeof(windows->views_before[i]));
	windows->counting = true;
	if (windows->dram)
		window_dram_count(windows->dram);
	windows->measured_from = windows->feed.clock;
	windows->row.warm_references = windows->feed.clock;
	windows->row.instructions = 0;
}

void window_models_time(struct windows *windows)
{
	if (!windows->options->timed)
		return;
	windows->modelling = true;
	tlb_model_hold(&windows->feed.model, true);
	windows->feed.views.missed = view_missed;
}

void window_models_stop(struct windows *windows)
{
	if (!windows->modelling)
		return;
	windows->modelling = false;
	windows->feed.views.missed = NULL;
	tlb_model_hold(&windows->feed.model, false);
}

void window_models_start_clock(struct windows *windows)
{
	windows->timed_from = windows->feed.clock;
	for (uint32_t core = 0; windows->modelling && core < windows->timed.count; core++)
		windows->since[core] = timed_cores_time(&windows->timed, core);
}

void window_models_read_clock(struct windows *windows)
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

void window_models_execute(struct windows *windows, const struct code_block *block,
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

void window_models_add_row(struct windows *windows, const struct followed *followed)
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
	for (uint32_t i = 0; i < windows->options->view_count; i++)
		for (int side = 0; side < TLB_SIDES; side++)
			subtract(&row->views[i][side],
				 &tlb_view_counts(&windows->feed.views, i)[side],
				 &windows->views_before[i][side]);
	if (window_rows_add(&windows->rows, row) < 0)
		windows->failed = true;
}
