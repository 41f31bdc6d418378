/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "copies_table.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "table.h"

static const char columns[] =
	"window pid tid at_ns at_cpu_ns stands_for_ns user_ns result error pause_ns clone_ns restarted "
	"rewound rseq_aborted resident_bytes faults lived_ns recorded added_faults";

const char *copies_refusal(enum injector_refusal refusal)
{
	static const char *const words[] = {
		[INJECTED] = "lost",
		[REFUSED_GONE] = "refused-gone",
		[REFUSED_PERMISSION] = "refused-permission",
		[REFUSED_TRACED] = "refused-traced",
		[REFUSED_BUSY] = "refused-busy",
		[REFUSED_STOPPED] = "refused-stopped",
		[REFUSED_32BIT] = "refused-32bit",
		[REFUSED_SECCOMP] = "refused-seccomp",
		[REFUSED_CLONE] = "refused-clone",
		[REFUSED_NO_INSTRUCTION] = "refused-instruction",
		[REFUSED_FAILED] = "refused-failed",
		[REFUSED_SLEEPING] = "refused-sleeping",
		[REFUSED_HUGETLB] = "refused-hugetlb",
		[REFUSED_IO_URING] = "refused-io_uring",
		[REFUSED_USERFAULTFD] = "refused-userfaultfd",
	};

	if ((size_t)refusal >= sizeof(words) / sizeof(words[0]) || !words[refusal])
		return "refused-failed";
	return words[refusal];
}

ssize_t copies_rows_add(struct copies_rows *rows, uint32_t window)
{
	struct copies_row *row;

	if (rows->count == rows->capacity) {
		size_t capacity = rows->capacity ? 2 * rows->capacity : 64;
		struct copies_row *all = reallocarray(rows->all, capacity, sizeof(*all));

		if (!all)
			return -1;
		rows->all = all;
		rows->capacity = capacity;
	}
	row = &rows->all[rows->count];
	memset(row, 0xff, sizeof(*row));	/* COPIES_UNKNOWN */
	row->window = window;
	row->pid = row->tid = 0;
	row->error = 0;
	row->given = false;
	row->result = "lost";
	return (ssize_t)rows->count++;
}

void copies_rows_free(struct copies_rows *rows)
{
	free(rows->all);
	memset(rows, 0, sizeof(*rows));
}

static int by_size(const void *left, const void *right)
{
	const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

/* How many pauses there were, and how long. */
static void write_pauses(struct table *table, const struct copies_rows *rows)
{
	uint64_t *pauses = calloc(rows->count + 1, sizeof(*pauses));
	size_t count = 0;

	for (size_t i = 0; pauses && i < rows->count; i++)
		if (rows->all[i].pause_ns != COPIES_UNKNOWN)
			pauses[count++] = rows->all[i].pause_ns;
	if (pauses)
		table_key(table, "pauses", "%zu", count);
	if (count) {
		qsort(pauses, count, sizeof(*pauses), by_size);
		table_key(table, "pause_median_ns", "%" PRIu64, pauses[count / 2]);
		table_key(table, "pause_longest_ns", "%" PRIu64, pauses[count - 1]);
	}
	free(pauses);
}

static void write_header(struct table *table, const struct copies_rows *rows,
			 const struct copies_summary *summary)
{
	const struct budget *budget = summary->budget;

	if (summary->pid)
		table_key(table, "pid", "%d", (int)summary->pid);
	if (summary->program)
		table_key(table, "program", "%s", summary->program);
	table_key(table, "state", "%s", summary->state);
	table_key(table, "wall_ns", "%" PRIu64, summary->wall_ns);
	table_key(table, "threads_seen", "%" PRIu64, summary->threads_seen);
	table_key(table, "processes_seen", "%" PRIu64, summary->processes_seen);
	table_key(table, "workers", "%u", summary->workers);
	table_key(table, "lost_workers", "%u", summary->lost_workers);
	if (budget->most_copies)
		table_key(table, "budget_copies", "%" PRIu64, budget->most_copies);
	else
		table_key(table, "budget_fraction", "%.4f", budget->fraction);
	table_key(table, "fault_ns", "%" PRIu64, budget->fault_ns);
	table_key(table, "seed", "%" PRIu64, summary->seed);
	table_key(table, "cpu_ns", "%" PRIu64, summary->cpu_ns);
	write_pauses(table, rows);
	table_key(table, "added_cpu_ns", "%" PRIu64, budget->spent_ns);
}

static void count_or_na(struct table *table, uint64_t count)
{
	if (count == COPIES_UNKNOWN)
		table_na(table);
	else
		table_count(table, count);
}

static void write_row(struct table *table, const struct copies_row *row)
{
	const uint64_t last[] = {
		row->pause_ns, row->clone_ns, row->restarted, row->rewound, row->rseq_aborted,
		row->resident_bytes, row->faults, row->lived_ns, row->recorded,
		row->added_faults,
	};

	table_count(table, row->window);
	count_or_na(table, row->pid ? (uint64_t)row->pid : COPIES_UNKNOWN);
	count_or_na(table, row->tid ? (uint64_t)row->tid : COPIES_UNKNOWN);
	count_or_na(table, row->at_ns);
	count_or_na(table, row->at_cpu_ns);
	count_or_na(table, row->stands_for_ns);
	count_or_na(table, row->user_ns);
	table_word(table, row->result);
	count_or_na(table, row->error ? (uint64_t)row->error : COPIES_UNKNOWN);
	for (size_t i = 0; i < sizeof(last) / sizeof(last[0]); i++)
		count_or_na(table, last[i]);
}

int copies_table_write(const struct copies_rows *rows, const struct copies_summary *summary,
		       const char *folder, uint32_t first)
{
	struct table table;
	char path[PATH_MAX];
	int length;

	length = first ? snprintf(path, sizeof(path), "%s/copies.%u.tsv", folder, first) :
			 snprintf(path, sizeof(path), "%s/copies.tsv", folder);
	if (length < 0 || (size_t)length >= sizeof(path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	if (table_open(&table, path, "copies", 1) < 0)
		return -1;
	write_header(&table, rows, summary);
	table_columns(&table, columns);
	for (size_t i = 0; i < rows->count; i++)
		write_row(&table, &rows->all[i]);
	return table_close(&table);
}
