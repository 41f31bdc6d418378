/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "first_touch.h"

#include <errno.h>
#include <stdlib.h>

#include "clock.h"
#include "table.h"

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

int first_touches_time(enum arena_method method, size_t page_bytes, size_t pages,
		       struct first_touches *touches)
{
	uint64_t *times = pages ? malloc(pages * sizeof(*times)) : NULL;
	struct arena_proof proof;
	struct arena arena;
	uint64_t before;
	int rc;

	if (!times || arena_open(&arena, method, page_bytes, pages) != 0) {
		errno = times ? errno : ENOMEM;
		free(times);
		return -1;
	}
	before = clock_ns();
	for (size_t i = 0; i < pages; i++) {
		uint64_t now;

		*(volatile char *)(arena.memory + i * page_bytes) = 1;
		now = clock_ns();
		times[i] = now - before;
		before = now;
	}
	rc = arena_prove(&arena, &proof);
	arena_close(&arena);
	qsort(times, pages, sizeof(*times), compare);
	*touches = (struct first_touches){
		.count = pages, .huge_bytes = proof.transparent_huge,
		.median_ns = times[pages / 2], .p99_ns = times[pages * 99 / 100],
		.p999_ns = times[pages * 999 / 1000], .worst_ns = times[pages - 1],
	};
	free(times);
	return rc;
}

static void write_row(struct table *table, size_t page_bytes, const struct first_touches *touches)
{
	table_count(table, page_bytes);
	table_count(table, touches->count);
	table_count(table, touches->huge_bytes);
	table_count(table, touches->median_ns);
	table_count(table, touches->p99_ns);
	table_count(table, touches->p999_ns);
	table_count(table, touches->worst_ns);
}

/*
 * The host of a virtual machine may have taken free memory back: then the first touch after that is
 * slow, on whichever pages.  Both sizes are to find memory that is there.  But what the kernel
 * compacts for this, it need not compact again.
 */
static void have_at_hand(size_t bytes, size_t base_bytes, size_t huge_bytes)
{
	const size_t sizes[2] = { huge_bytes, base_bytes };
	struct arena arenas[2] = { 0 };

	for (int i = 0; i < 2; i++) {
		const size_t pages = bytes / sizes[i];

		if (arena_open(&arenas[i], i ? ARENA_BASE : ARENA_THP, sizes[i], pages) != 0)
			break;
		for (size_t at = 0; at < pages * sizes[i]; at += base_bytes)
			((volatile char *)arenas[i].memory)[at] = 1;
	}
	arena_close(&arenas[0]);
	arena_close(&arenas[1]);
}

int first_touches_write(const char *path, size_t bytes, size_t base_bytes, size_t huge_bytes,
			bool at_hand)
{
	struct first_touches base, huge;
	struct table table;
	bool has_huge;

	if (at_hand && huge_bytes)
		have_at_hand(bytes, base_bytes, huge_bytes);
	/*
	 * First, as base pages take free memory apart.  A kernel may have huge pages in pools alone.
	 */
	has_huge = huge_bytes &&
		   first_touches_time(ARENA_THP, huge_bytes, bytes / huge_bytes, &huge) == 0;
	if (first_touches_time(ARENA_BASE, base_bytes, bytes / base_bytes, &base) != 0 ||
	    table_open(&table, path, "first_touches", 1) != 0)
		return -1;
	table_columns(&table, "page_size_bytes touches huge_bytes median_ns p99_ns p999_ns worst_ns");
	write_row(&table, base_bytes, &base);
	if (has_huge)
		write_row(&table, huge_bytes, &huge);
	return table_close(&table);
}
