/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "window.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attribution.h"
#include "timed_cores.h"
#include "window_options.h"
#include "window_rows.h"

/* A line: what a repeated string instruction moves is looked up once in each. */
#define STRING_STEP 64u
/* How often it is decided whether the TLBs are warm, in references. */
#define WARM_STEP 1000000u
/*
 * They are, if no more of a step's references than this are unknown, or no more than a 50th of its
 * misses; with so many misses that this is certain, before options->warm.
 */
#define FEW_UNKNOWN 20u
#define FEW_UNKNOWN_SHARE 50u
#define MANY_MISSES 10000u

/* An executed block: kept until the copy is dead. */
struct kept {
	const struct code_block *block;
	uint64_t next;
};

struct windows {
	const struct window_options *options;
	struct watcher watcher;
	struct tlb_filter data_filter, code_filter;
	struct tlb_model model;
	struct tlb_views views;
	void *model_memory, *views_memory;
	struct timed_cores timed;	/* if options->timed */
	struct attribution *attribution;
	struct window_row row;		/* of the current window */
	uint64_t clock;			/* references so far in it */
	uint64_t code_page;
	bool jumped;			/* the last block ended in an indirect jump */
	enum { WARMING, KEEPING, MEASURING } phase;
	uint64_t step_ends, step_unknown, step_misses;
	uint64_t measured_from;		/* clock */
	struct tlb_counts before[TLB_SIZES][TLB_SIDES];
	struct tlb_counts views_before[TLB_MOST_VIEWS][TLB_SIDES];
	/* Of the core's warm-up and the measured part: struct kept, then its addresses. */
	uint64_t *kept;
	size_t kept_count, kept_capacity;
	uint64_t kept_references, cpu_ns, touched_bytes;
	bool failed;			/* memory ran out */
	bool forgotten;
	struct window_rows rows;
};

/* What the callbacks of the model, which have no context, are about. */
static struct windows *current;

static void missed(enum tlb_size size, uint64_t address, enum tlb_side side, bool walk)
{
	struct windows *windows = current;

	if (side == TLB_FETCH) {
		if (windows->phase == MEASURING)
			attribution_missed(windows->attribution, size, address, side, walk,
					   windows->model.where);
		return;
	}
	if (windows->options->timed && walk && windows->phase != MEASURING)
		timed_cores_walked(&windows->timed, size, address, windows->model.when);
	if (windows->phase != MEASURING)
		return;
	attribution_missed(windows->attribution, size, address, side, walk, windows->model.where);
	if (!windows->options->timed)
		return;
	timed_cores_missed(&windows->timed, size, address, walk, windows->model.when);
	if (walk)
		timed_cores_walked(&windows->timed, size, address, windows->model.when);
}

static void view_missed(uint32_t view, uint64_t address, enum tlb_side side, bool walk)
{
	if (side != TLB_FETCH)
		timed_cores_view_missed(&current->timed, view, address, walk,
					current->model.when);
}

static void waited(bool huge, uint64_t address, ticks time)
{
	attribution_waited(current->attribution, huge ? TLB_HUGE : TLB_BASE, address, time);
}

static inline bool in_slot(struct tlb_filter *filter, uint32_t index, uint64_t address,
			   uint32_t shift, uint64_t time)
{
	struct tlb_filter_slot *slot = &filter->slot[index];

	if (address >> shift != slot->address >> shift)
		return false;
	slot->time = time;
	return true;
}

static void fetch(struct windows *windows, uint64_t address)
{
	struct tlb_model *model = &windows->model;
	const uint64_t time = windows->clock++;

	if (!in_slot(&windows->code_filter, tlb_filter_index(&model->code.slots, address), address,
		     model->code.slots.base_shift, time))
		tlb_model_fetch(model, address, time);
}

static inline void access_page(struct windows *windows, uint64_t address, enum tlb_side side,
			       uint64_t time, uint64_t where)
{
	struct tlb_model *model = &windows->model;

	if (model->batching) {
		model->where = where;
		tlb_model_batch(model, address, side, time);
		return;
	}
	if (in_slot(&windows->data_filter, tlb_filter_index(&model->data.slots, address), address,
		    model->data.slots.base_shift, time))
		return;
	model->where = where;
	tlb_model_data(model, address, side, time);
}

static inline void access_bytes(struct windows *windows, uint64_t address, uint64_t bytes,
				enum tlb_side side, uint64_t time, uint64_t where)
{
	const uint32_t shift = windows->model.data.slots.base_shift;

	access_page(windows, address, side, time, where);
	if (bytes > 1 && (address + bytes - 1) >> shift != address >> shift)
		access_page(windows, address + bytes - 1, side, time, where);
}

/* A repeated string instruction's operand: line by line; each element is a reference. */
static void access_string(struct windows *windows, const struct code_reference *reference,
			  uint64_t address, uint64_t length, uint64_t where)
{
	const enum tlb_side side = reference->kind == REFERENCE_LOAD ? TLB_LOAD : TLB_STORE;

	for (uint64_t done = 0; done < length; done += STRING_STEP)
		access_page(windows, address + done, side, windows->clock, where);
	windows->clock += length / (reference->bytes ? reference->bytes : 1);
}

static void access_code(struct windows *windows, const struct code_block *block)
{
	const uint32_t shift = windows->model.code.slots.base_shift;
	const uint64_t first = block->address >> shift, last = (block->past - 1) >> shift;

	if (first != windows->code_page || windows->jumped)
		fetch(windows, block->address);
	if (last != first)
		fetch(windows, block->past - 1);
	windows->code_page = last;
	windows->jumped = block->end == ENDS_INDIRECT_JUMP || block->end == ENDS_RETURN ||
			  block->end == ENDS_INDIRECT_CALL;
}

/* All references of an executed block, in order. */
static void access_block(struct windows *windows, const struct code_block *block,
			 const uint64_t *addresses)
{
	access_code(windows, block);
	for (unsigned i = 0; i < block->reference_count; i++) {
		const struct code_reference *reference = &block->references[i];
		const uint64_t where = block->instructions[reference->instruction].address;
		const uint64_t address = addresses[i];

		if (i + 1u < block->reference_count &&
		    block->references[i + 1].kind == REFERENCE_LENGTH) {
			access_string(windows, reference, address, addresses[i + 1], where);
			i++;
			continue;
		}
		if (!address)
			continue;
		access_bytes(windows, address, reference->bytes,
			     reference->kind == REFERENCE_STORE ? TLB_STORE : TLB_LOAD,
			     windows->clock++, where);
		if (reference->kind == REFERENCE_MODIFY)
			access_bytes(windows, address, reference->bytes, TLB_STORE,
				     windows->clock++, where);
	}
}

static uint64_t sum_of(const struct windows *windows, bool unknown)
{
	uint64_t sum = 0;

	for (int size = 0; size < TLB_SIZES; size++)
		for (int side = 0; side < TLB_SIDES; side++) {
			const struct tlb_counts *counts = &windows->model.counts[size][side];

			sum += unknown ? counts->unknown : counts->stlb_misses;
		}
	return sum;
}

static void remember_counts(struct windows *windows)
{
	tlb_model_flush(&windows->model);
	memcpy(windows->before, windows->model.counts, sizeof(windows->before));
	for (uint32_t i = 0; i < windows->options->view_count; i++)
		memcpy(windows->views_before[i], tlb_view_counts(&windows->views, i),
		       sizeof(windows->views_before[i]));
	windows->measured_from = windows->clock;
	windows->row.instructions = 0;
}

/* A step of the warm-up is over: is it long enough? */
static void end_step(struct windows *windows)
{
	uint64_t unknown, misses;
	bool few;

	remember_counts(windows);
	unknown = sum_of(windows, true) - windows->step_unknown;
	misses = sum_of(windows, false) - windows->step_misses;
	windows->step_unknown += unknown;
	windows->step_misses += misses;
	windows->step_ends += WARM_STEP;
	few = unknown <= misses / FEW_UNKNOWN_SHARE;
	if ((few && misses > MANY_MISSES) || windows->clock >= windows->options->most_warm ||
	    (windows->clock >= windows->options->warm && (few || unknown <= FEW_UNKNOWN)))
		windows->phase = KEEPING;
}

static uint64_t references_of(const struct code_block *block)
{
	return block->reference_count;
}

static bool keep(struct windows *windows, const struct code_block *block, const uint64_t *addresses,
		 uint64_t next)
{
	const size_t words = sizeof(struct kept) / sizeof(uint64_t) + block->reference_count;
	struct kept *kept;

	if (windows->kept_count + words > windows->kept_capacity) {
		size_t larger = windows->kept_capacity ? 2 * windows->kept_capacity : 1u << 20;
		uint64_t *all = realloc(windows->kept, larger * sizeof(*all));

		if (!all) {
			windows->failed = true;
			return false;
		}
		windows->kept = all;
		windows->kept_capacity = larger;
	}
	kept = (struct kept *)(windows->kept + windows->kept_count);
	*kept = (struct kept){ block, next };
	memcpy(kept + 1, addresses, block->reference_count * sizeof(*addresses));
	windows->kept_count += words;
	windows->kept_references += references_of(block);
	return windows->kept_references < windows->options->core_warm + windows->options->measured;
}

static bool executed(void *context, const struct code_block *block, const uint64_t *addresses,
		     uint64_t next)
{
	struct windows *windows = context;

	if (windows->phase == KEEPING)
		return keep(windows, block, addresses, next);
	access_block(windows, block, addresses);
	attribution_executed(windows->attribution, block, addresses, next);
	windows->row.instructions += block->instruction_count;
	if (windows->options->whole) {
		if (windows->options->timed && block->watched)
			timed_cores_execute(&windows->timed, block, block->watched, addresses, next);
	} else if (windows->clock >= windows->step_ends) {
		end_step(windows);
	}
	return true;
}

static void *translated(void *context, const struct code_block *block,
			const struct instruction *decoded)
{
	(void)context;
	return dataflow_of(block, decoded);
}

/* The core's warm-up is over: what follows is measured. */
static void start_measuring(struct windows *windows, ticks since[MOST_CORES])
{
	windows->phase = MEASURING;
	windows->row.warm_references = windows->clock;
	remember_counts(windows);
	for (uint32_t core = 0; windows->options->timed && core < windows->timed.count; core++)
		since[core] = timed_cores_time(&windows->timed, core);
}

static void take_time(struct windows *windows, const ticks since[MOST_CORES])
{
	const uint64_t references = windows->clock - windows->measured_from;

	windows->row.timed = true;
	for (uint32_t core = 0; core < windows->timed.count; core++) {
		const ticks time = timed_cores_time(&windows->timed, core) - since[core];

		windows->row.time[core] = time;
		if (references)
			windows->timed.pace[core] = time / references;
	}
}

/* Give the models what was kept. */
static void model_kept(struct windows *windows)
{
	ticks since[MOST_CORES] = { 0 };
	uint64_t seen = 0;

	if (!windows->kept_count)
		return;
	tlb_model_hold(&windows->model, true);
	if (windows->options->timed)
		windows->views.missed = view_missed;
	if (windows->options->core_warm == 0)
		start_measuring(windows, since);
	for (size_t at = 0; at < windows->kept_count;) {
		const struct kept *kept = (const struct kept *)(windows->kept + at);
		const uint64_t *addresses = (const uint64_t *)(kept + 1);

		access_block(windows, kept->block, addresses);
		attribution_executed(windows->attribution, kept->block, addresses, kept->next);
		if (windows->options->timed && kept->block->watched)
			timed_cores_execute(&windows->timed, kept->block, kept->block->watched,
					    addresses, kept->next);
		windows->row.instructions += kept->block->instruction_count;
		at += sizeof(*kept) / sizeof(uint64_t) + kept->block->reference_count;
		seen += references_of(kept->block);
		if (windows->phase != MEASURING && seen >= windows->options->core_warm)
			start_measuring(windows, since);
	}
	if (windows->options->timed && windows->phase == MEASURING)
		take_time(windows, since);
	windows->kept_count = 0;
	windows->views.missed = NULL;
	tlb_model_hold(&windows->model, false);
}

static void forget(void *context, void *watched)
{
	struct windows *windows = context;

	/* What was kept points to it. */
	model_kept(windows);
	windows->forgotten = true;
	free(watched);
}

struct windows *windows_make(const struct window_options *options)
{
	struct windows *windows = calloc(1, sizeof(*windows));

	if (!windows)
		return NULL;
	windows->options = options;
	windows->watcher = (struct watcher){
		.translated = options->timed ? translated : NULL,
		.forgotten = options->timed ? forget : NULL,
		.executed = executed,
		.context = windows,
	};
	windows->model_memory = malloc(tlb_model_bytes(&options->tlb));
	if (options->view_count)
		windows->views_memory = malloc(tlb_views_bytes(options->view_configs,
							       options->view_count, &options->tlb));
	windows->attribution = attribution_make();
	if (!windows->model_memory || (options->view_count && !windows->views_memory) ||
	    !windows->attribution ||
	    (options->timed && timed_cores_init(&windows->timed, options) < 0)) {
		windows_free(windows);
		errno = ENOMEM;
		return NULL;
	}
	for (int size = 0; options->timed && size < TLB_SIZES; size++)
		windows->timed.cores[size].waited = waited;
	return windows;
}

void windows_free(struct windows *windows)
{
	if (!windows)
		return;
	if (windows->options->timed)
		timed_cores_free(&windows->timed);
	attribution_free(windows->attribution);
	window_rows_free(&windows->rows);
	free(windows->kept);
	free(windows->model_memory);
	free(windows->views_memory);
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
	tlb_model_init(&windows->model, &options->tlb, windows->model_memory, &windows->data_filter,
		       &windows->code_filter);
	windows->model.missed = missed;
	if (options->view_count) {
		tlb_views_init(&windows->views, options->view_configs, options->view_count,
			       &options->tlb, windows->views_memory);
		tlb_model_watch(&windows->model, &windows->views);
	}
	windows->clock = 0;
	windows->code_page = UINT64_MAX;
	windows->jumped = true;
	windows->phase = options->whole ? MEASURING : WARMING;
	windows->step_ends = WARM_STEP;
	windows->step_unknown = windows->step_misses = 0;
	windows->kept_count = 0;
	windows->kept_references = 0;
	windows->failed = false;
	windows->touched_bytes = resident_bytes(copy->pid);
	remember_counts(windows);
	if (options->timed) {
		timed_cores_begin(&windows->timed, start->at_cpu_ns, windows->touched_bytes,
				  windows->forgotten);
		windows->forgotten = false;
	}
	return attribution_begin(windows->attribution, copy, start->number);
}

static void subtract(struct tlb_counts *to, const struct tlb_counts *now,
		     const struct tlb_counts *before)
{
	to->l1_misses = now->l1_misses - before->l1_misses;
	to->stlb_hits = now->stlb_hits - before->stlb_hits;
	to->stlb_misses = now->stlb_misses - before->stlb_misses;
	to->unknown = now->unknown - before->unknown;
}

int windows_end(struct windows *windows, const struct followed *followed)
{
	struct window_row *row = &windows->row;
	const ticks none[MOST_CORES] = { 0 };

	current = windows;
	model_kept(windows);
	tlb_model_flush(&windows->model);
	if (windows->options->whole && windows->options->timed)
		take_time(windows, none);
	row->references = windows->clock - windows->measured_from;
	row->followed = *followed;
	for (int size = 0; size < TLB_SIZES; size++)
		for (int side = 0; side < TLB_SIDES; side++)
			subtract(&row->counts[size][side], &windows->model.counts[size][side],
				 &windows->before[size][side]);
	for (uint32_t i = 0; i < windows->options->view_count; i++)
		for (int side = 0; side < TLB_SIDES; side++)
			subtract(&row->views[i][side], &tlb_view_counts(&windows->views, i)[side],
				 &windows->views_before[i][side]);
	attribution_end(windows->attribution);
	if (windows->failed) {
		errno = ENOMEM;
		return -1;
	}
	return window_rows_add(&windows->rows, row);
}

int windows_write(struct windows *windows, const char *folder, uint32_t worker)
{
	if (window_rows_write(&windows->rows, windows->options, folder, worker) < 0)
		return -1;
	return attribution_write(windows->attribution, folder, worker);
}
