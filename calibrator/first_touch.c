/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "first_touch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "table.h"

/* A server's worst write is known from these, and the memory is taken twice. */
#define MOST_FORKED_BYTES ((size_t)128 << 20)

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Write a byte to each `step` bytes, time each, and sort the times. */
static void touch(char *memory, size_t step, size_t count, uint64_t *times,
		  struct touch_times *found)
{
	const uint64_t start = clock_ns();
	uint64_t before = start;

	for (size_t i = 0; i < count; i++) {
		uint64_t now;

		*(volatile char *)(memory + i * step) = 1;
		now = clock_ns();
		times[i] = now - before;
		before = now;
	}
	qsort(times, count, sizeof(*times), compare);
	*found = (struct touch_times){
		.count = count, .median_ns = times[count / 2], .p99_ns = times[count * 99 / 100],
		.p999_ns = times[count * 999 / 1000], .worst_ns = times[count - 1],
		.total_ns = before - start,
	};
}

/* A child that has the same memory, and ends when `ends` is closed.  Returns -1 if there is none. */
static pid_t fork_child(int ends[2])
{
	pid_t child;
	char none;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -1;
	child = fork();
	if (child == 0) {
		close(ends[1]);
		while (read(ends[0], &none, 1) < 0 && errno == EINTR)
			;
		_exit(0);
	}
	close(ends[0]);
	if (child < 0)
		close(ends[1]);
	return child;
}

static int touch_after_fork(struct arena *arena, size_t bytes, size_t base_bytes,
			    uint64_t *times, struct first_touches *touches)
{
	struct arena_proof before, after;
	int ends[2], rc;
	pid_t child;

	if (arena_prove(arena, &before) < 0)
		return -1;
	child = fork_child(ends);
	if (child < 0)
		return 0;
	touch(arena->memory, base_bytes, bytes / base_bytes, times, &touches->forked);
	rc = arena_prove(arena, &after);
	touches->forked_huge_bytes = before.transparent_huge;
	touches->kept_huge_bytes = after.transparent_huge;
	close(ends[1]);
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	return rc;
}

int first_touches_time(enum arena_method method, size_t page_bytes, size_t pages,
		       size_t base_bytes, struct first_touches *touches)
{
	const size_t forked_bytes = pages * page_bytes < MOST_FORKED_BYTES ? pages * page_bytes :
				    MOST_FORKED_BYTES;
	const size_t most = pages > forked_bytes / base_bytes ? pages : forked_bytes / base_bytes;
	uint64_t *times = pages ? malloc(most * sizeof(*times)) : NULL;
	struct arena_proof proof;
	struct arena arena;
	int rc;

	if (!times || arena_open(&arena, method, page_bytes, pages) != 0) {
		errno = times ? errno : ENOMEM;
		free(times);
		return -1;
	}
	*touches = (struct first_touches){ 0 };
	touch(arena.memory, page_bytes, pages, times, &touches->first);
	rc = arena_prove(&arena, &proof);
	touches->huge_bytes = proof.transparent_huge;
	/* The rest would be taken twice, and counted. */
	madvise(arena.memory + forked_bytes, pages * page_bytes - forked_bytes, MADV_DONTNEED);
	if (rc == 0)
		rc = touch_after_fork(&arena, forked_bytes, base_bytes, times, touches);
	arena_close(&arena);
	free(times);
	return rc;
}

static void write_times(struct table *table, const struct touch_times *times)
{
	table_count(table, times->median_ns);
	table_count(table, times->p99_ns);
	table_count(table, times->p999_ns);
	table_count(table, times->worst_ns);
	table_count(table, times->total_ns);
}

static void write_row(struct table *table, size_t page_bytes, const struct first_touches *touches)
{
	table_count(table, page_bytes);
	table_count(table, touches->first.count);
	table_count(table, touches->huge_bytes);
	write_times(table, &touches->first);
	table_count(table, touches->forked.count);
	table_count(table, touches->forked_huge_bytes);
	table_count(table, touches->kept_huge_bytes);
	write_times(table, &touches->forked);
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
		   first_touches_time(ARENA_THP, huge_bytes, bytes / huge_bytes, base_bytes, &huge) == 0;
	if (first_touches_time(ARENA_BASE, base_bytes, bytes / base_bytes, base_bytes, &base) != 0 ||
	    table_open(&table, path, "first_touches", 3) != 0)
		return -1;
	table_columns(&table, "page_size_bytes touches huge_bytes median_ns p99_ns p999_ns worst_ns "
		      "total_ns forked_touches forked_huge_bytes kept_huge_bytes forked_median_ns "
		      "forked_p99_ns forked_p999_ns forked_worst_ns forked_total_ns");
	write_row(&table, base_bytes, &base);
	if (has_huge)
		write_row(&table, huge_bytes, &huge);
	return table_close(&table);
}
