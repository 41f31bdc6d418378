/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "window_dram.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "numa/placement.h"
#include "table.h"

/* Entries of the hash table; a thread's number there is that of the window, from 1. */
#define MOST_COUNTS ((size_t)1 << 22)
#define MOST_WINDOWS 65535u
#define LINE_BYTES 64u

struct window_misses {
	uint32_t window;
	uint64_t l2, walks;
};

struct window_dram {
	struct placement placement;
	struct placement_thread *caches;	/* of the current window */
	struct window_misses *windows;
	uint32_t count, capacity;
	bool counting;
};

static void *allocate(size_t bytes)
{
	return calloc(1, bytes);
}

struct window_dram *window_dram_make(const struct window_options *options)
{
	struct window_dram *dram = calloc(1, sizeof(*dram));

	if (!dram)
		return NULL;
	dram->placement = (struct placement){
		.allocate = allocate, .release = free, .config = options->dram,
	};
	dram->placement.config.base_shift = options->tlb.page_shift[TLB_BASE];
	dram->placement.config.most_counts = MOST_COUNTS;
	dram->placement.config.most_touches = 1;
	placement_init(&dram->placement);
	if (dram->placement.failed) {
		window_dram_free(dram);
		errno = ENOMEM;
		return NULL;
	}
	return dram;
}

void window_dram_free(struct window_dram *dram)
{
	if (!dram)
		return;
	placement_thread_free(&dram->placement, dram->caches);
	free(dram->placement.counts);
	free(dram->placement.touches);
	free(dram->windows);
	free(dram);
}

/* Room for another window.  Returns -1 if there is none. */
static int make_room(struct window_dram *dram)
{
	const uint32_t larger = dram->capacity ? 2 * dram->capacity : 64;
	struct window_misses *windows;

	if (dram->count == MOST_WINDOWS)
		return -1;
	if (dram->count < dram->capacity)
		return 0;
	windows = realloc(dram->windows, larger * sizeof(*windows));
	if (!windows)
		return -1;
	dram->windows = windows;
	dram->capacity = larger;
	return 0;
}

void window_dram_begin(struct window_dram *dram, uint32_t window)
{
	placement_thread_free(&dram->placement, dram->caches);
	dram->caches = NULL;
	dram->counting = false;
	if (make_room(dram) < 0) {
		dram->placement.failed = true;
		return;
	}
	dram->windows[dram->count++].window = window;
	dram->placement.l2_misses = dram->placement.walk_l2_misses = 0;
	dram->caches = placement_thread_new(&dram->placement, dram->count);
	if (!dram->caches)
		dram->placement.failed = true;
}

void window_dram_count(struct window_dram *dram)
{
	dram->counting = true;
}

void window_dram_end(struct window_dram *dram)
{
	if (!dram->caches)
		return;
	dram->windows[dram->count - 1].l2 = dram->placement.l2_misses;
	dram->windows[dram->count - 1].walks = dram->placement.walk_l2_misses;
}

static void access(struct window_dram *dram, uint64_t address, uint64_t bytes, uint8_t kind)
{
	placement_access(&dram->placement, dram->caches, address, bytes ? (uint32_t)bytes : 1,
			 kind != REFERENCE_LOAD, dram->counting);
}

void window_dram_execute(struct window_dram *dram, const struct code_block *block,
			 const uint64_t *addresses)
{
	if (!dram->caches)
		return;
	for (unsigned i = 0; i < block->reference_count; i++) {
		const struct code_reference *reference = &block->references[i];

		if (reference->kind == REFERENCE_LENGTH || !addresses[i])
			continue;
		if (i + 1u < block->reference_count && reference[1].kind == REFERENCE_LENGTH) {
			for (uint64_t done = 0; done < addresses[i + 1]; done += LINE_BYTES)
				access(dram, addresses[i] + done, 1, reference->kind);
			continue;
		}
		access(dram, addresses[i], reference->bytes, reference->kind);
	}
}

void window_dram_walk(struct window_dram *dram, uint64_t address)
{
	if (dram->caches)
		placement_walk(&dram->placement, dram->caches, address, dram->counting);
}

static int open_table(struct table *table, const char *folder, const char *kind, uint32_t worker)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s.%u.tsv", folder, kind, worker);
	return table_open(table, path, kind, 1);
}

static int write_misses(const struct window_dram *dram, const char *folder, uint32_t worker)
{
	struct table table;

	if (open_table(&table, folder, "copy_caches", worker) < 0)
		return -1;
	table_columns(&table, "window l2_misses walk_l2_misses");
	for (uint32_t i = 0; i < dram->count; i++) {
		table_count(&table, dram->windows[i].window);
		table_count(&table, dram->windows[i].l2);
		table_count(&table, dram->windows[i].walks);
	}
	return table_close(&table);
}

int window_dram_write(const struct window_dram *dram, const char *folder, uint32_t worker)
{
	const struct placement *placement = &dram->placement;
	struct table table;

	if (placement->failed) {
		errno = ENOMEM;
		return -1;
	}
	if (write_misses(dram, folder, worker) < 0 ||
	    open_table(&table, folder, "copy_dram", worker) < 0)
		return -1;
	table_key(&table, "base_page_bytes", "%llu", 1ull << placement->config.base_shift);
	table_columns(&table, "window page accesses");
	for (size_t i = 0; i < placement->capacity; i++) {
		const struct placement_count *count = &placement->counts[i];

		/* Pages that were only written in the caches have none. */
		if (!count->key || !count->accesses[0])
			continue;
		table_count(&table, dram->windows[(count->key & 0xffff) - 1].window);
		table_count(&table, count->key >> 16);
		table_count(&table, count->accesses[0]);
	}
	return table_close(&table);
}
