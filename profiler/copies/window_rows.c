/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "window_rows.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "table.h"

int window_rows_add(struct window_rows *rows, const struct window_row *row)
{
	if (rows->count == rows->capacity) {
		size_t larger = rows->capacity ? 2 * rows->capacity : 64;
		struct window_row *all = realloc(rows->all, larger * sizeof(*all));

		if (!all)
			return -1;
		rows->all = all;
		rows->capacity = larger;
	}
	rows->all[rows->count++] = *row;
	return 0;
}

void window_rows_free(struct window_rows *rows)
{
	free(rows->all);
	*rows = (struct window_rows){ NULL, 0, 0 };
}

static int open_table(struct table *table, const char *folder, const char *kind, uint32_t worker)
{
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/%s.%u.tsv", folder, kind, worker);
	return table_open(table, path, kind, 1);
}

static void cycles(struct table *table, const struct window_row *row, uint32_t core)
{
	if (row->timed)
		table_count(table, row->time[core] / TICKS_PER_CYCLE);
	else
		table_na(table);
}

static int write_windows(const struct window_rows *rows, const struct window_options *options,
			 const char *folder, uint32_t worker)
{
	static const char *const ends[] = { "enough", "call", "fault", "instruction", "exited",
					    "failed", "time" };
	struct table table;

	if (open_table(&table, folder, "copy_windows", worker) < 0)
		return -1;
	table_key(&table, "base_page_bytes", "%llu", 1ull << options->tlb.page_shift[TLB_BASE]);
	table_key(&table, "huge_page_bytes", "%llu", 1ull << options->tlb.page_shift[TLB_HUGE]);
	table_key(&table, "core", "%s", options->timed ? options->core_text : "NA");
	table_columns(&table, "window pid tid at_cpu_ns warm_references references instructions "
			      "ended call stops translated stepped replayed timed_references "
			      "base_cycles huge_cycles");
	for (size_t i = 0; i < rows->count; i++) {
		const struct window_row *row = &rows->all[i];

		table_count(&table, row->window);
		table_count(&table, (uint64_t)row->pid);
		table_count(&table, (uint64_t)row->tid);
		table_count(&table, row->at_cpu_ns);
		table_count(&table, row->warm_references);
		table_count(&table, row->references);
		table_count(&table, row->instructions);
		table_word(&table, ends[row->followed.end]);
		if (row->followed.end == FOLLOW_CALL || row->followed.end == FOLLOW_FAULT)
			table_count(&table, (uint64_t)row->followed.call);
		else
			table_na(&table);
		table_count(&table, row->followed.stops);
		table_count(&table, row->followed.translated);
		table_count(&table, row->followed.stepped);
		table_count(&table, row->followed.replayed);
		table_count(&table, row->timed_references);
		cycles(&table, row, TLB_BASE);
		cycles(&table, row, TLB_HUGE);
	}
	return table_close(&table);
}

static void write_sides(struct table *table, uint32_t window, uint64_t number,
			const struct tlb_counts counts[TLB_SIDES])
{
	static const char *const sides[TLB_SIDES] = { "load", "store", "fetch" };

	for (int side = 0; side < TLB_SIDES; side++) {
		table_count(table, window);
		table_count(table, number);
		table_word(table, sides[side]);
		table_count(table, counts[side].l1_misses);
		table_count(table, counts[side].stlb_hits);
		table_count(table, counts[side].stlb_misses - counts[side].unknown);
		table_count(table, counts[side].unknown);
	}
}

static int write_counts(const struct window_rows *rows, const struct window_options *options,
			const char *folder, uint32_t worker)
{
	struct table table;

	if (open_table(&table, folder, "copy_counts", worker) < 0)
		return -1;
	table_columns(&table, "window page_size_bytes side l1_misses stlb_hits stlb_misses "
			      "unknown_misses");
	for (size_t i = 0; i < rows->count; i++)
		for (int size = 0; size < TLB_SIZES; size++)
			write_sides(&table, rows->all[i].window,
				    UINT64_C(1) << options->tlb.page_shift[size],
				    rows->all[i].counts[size]);
	return table_close(&table);
}

int window_rows_write(const struct window_rows *rows, const struct window_options *options,
		      const char *folder, uint32_t worker)
{
	return write_windows(rows, options, folder, worker) < 0 ||
	       write_counts(rows, options, folder, worker) < 0 ? -1 : 0;
}
