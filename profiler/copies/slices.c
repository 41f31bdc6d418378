/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "slices.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

struct slice_row *slice_rows_add(struct slice_rows *rows, uint32_t window)
{
	struct slice_row *row;

	if (rows->count == rows->capacity) {
		const size_t larger = rows->capacity ? 2 * rows->capacity : 64;
		struct slice_row *all = realloc(rows->all, larger * sizeof(*all));

		if (!all)
			return NULL;
		rows->all = all;
		rows->capacity = larger;
	}
	row = &rows->all[rows->count++];
	*row = (struct slice_row){
		.window = window, .outcome = "failed", .call = -1,
		.warm_ns = SLICE_UNKNOWN, .time_ns = SLICE_UNKNOWN, .faults = SLICE_UNKNOWN,
		.stops = SLICE_UNKNOWN, .anonymous_bytes = SLICE_UNKNOWN,
		.huge_bytes = SLICE_UNKNOWN, .changed_pages = SLICE_UNKNOWN,
		.different_pages = SLICE_UNKNOWN,
	};
	return row;
}

bool slice_rows_are_good(const struct slice_rows *rows, size_t first)
{
	for (size_t i = first; i < rows->count; i++)
		if (strcmp(rows->all[i].outcome, "good") == 0)
			return true;
	return false;
}

void slice_rows_free(struct slice_rows *rows)
{
	free(rows->all);
	*rows = (struct slice_rows){ NULL, 0, 0 };
}

static void count_or_na(struct table *table, uint64_t count)
{
	if (count == SLICE_UNKNOWN)
		table_na(table);
	else
		table_count(table, count);
}

int slice_rows_write(const struct slice_rows *rows, const char *folder, uint32_t worker)
{
	static const char *const arms[ARM_KINDS] = { "base", "repeat", "huge" };
	struct table table;
	char path[PATH_MAX];

	snprintf(path, sizeof(path), "%s/slices.%u.tsv", folder, worker);
	if (table_open(&table, path, "slices", 1) < 0)
		return -1;
	table_columns(&table, "window slice arm turn outcome call warm_ns time_ns faults stops "
			      "anonymous_bytes huge_bytes changed_pages different_pages");
	for (size_t i = 0; i < rows->count; i++) {
		const struct slice_row *row = &rows->all[i];
		const uint64_t last[] = {
			row->warm_ns, row->time_ns, row->faults, row->stops, row->anonymous_bytes,
			row->huge_bytes, row->changed_pages, row->different_pages,
		};

		table_count(&table, row->window);
		table_count(&table, row->slice);
		table_word(&table, arms[row->arm]);
		table_count(&table, row->turn);
		table_word(&table, row->outcome);
		count_or_na(&table, row->call < 0 ? SLICE_UNKNOWN : (uint64_t)row->call);
		for (size_t k = 0; k < sizeof(last) / sizeof(last[0]); k++)
			count_or_na(&table, last[k]);
	}
	return table_close(&table);
}
