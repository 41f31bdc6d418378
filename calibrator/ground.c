/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ground.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

static size_t pages_for(const struct layout *layout, size_t lines, size_t page_bytes)
{
	return layout_span(layout, lines) / page_bytes + 1;
}

static size_t apart_bytes(const struct series *series, const struct page_kind *pages,
			  size_t lines)
{
	/* Far apart, each page may need a page table of its own. */
	if (series->sparse)
		return 2 * lines * pages->bytes;
	return pages_for(&series->layout, lines, pages->bytes) * pages->bytes;
}

static size_t packed_bytes(const struct machine *machine, size_t lines)
{
	const struct layout layout = layout_packed(machine->line_bytes);

	return pages_for(&layout, lines, machine->packed.bytes) * machine->packed.bytes;
}

size_t ground_bytes(const struct machine *machine, const struct series *series,
		    const struct page_kind *pages, size_t lines)
{
	size_t bytes = apart_bytes(series, pages, lines);

	return series->alone ? bytes : bytes + packed_bytes(machine, lines);
}

static int fits(const struct machine *machine, const struct series *series,
		const struct page_kind *pages, size_t lines)
{
	size_t apart = apart_bytes(series, pages, lines);
	size_t both = ground_bytes(machine, series, pages, lines);

	if (pages->bytes == machine->packed.bytes)
		return both <= pages->limit;
	return apart <= pages->limit && both - apart <= machine->packed.limit &&
	       both <= machine->memory_limit;
}

size_t ground_rungs(const struct machine *machine, const struct series *series,
		    const struct page_kind *pages)
{
	size_t n = 0;

	while (n < series->rungs && fits(machine, series, pages, series->ladder[n]))
		n++;
	return n;
}

/* All of the arena, or an error. */
static int fill(struct arena *arena, const struct page_kind *pages, size_t count,
		uint64_t deadline_ns)
{
	if (arena_open(arena, pages->method, pages->bytes, count) != 0 ||
	    arena_extend(arena, count, deadline_ns) != 0)
		return -1;
	if (arena->pages < count) {
		errno = ETIME;
		return -1;
	}
	return 0;
}

/* Only the pages that the lines are on, in the order of addresses. */
static int fill_sparsely(struct arena *arena, const struct layout *layout, size_t lines)
{
	const struct chase chase = { .memory = arena->memory, .layout = *layout, .lines = lines };
	struct arena_proof proof;

	chase_touch(&chase);
	if (arena_prove(arena, &proof) != 0)
		return -1;
	if (arena_holds(arena) == 1 && proof.resident >= lines * arena->page_bytes)
		return 0;
	errno = ENODATA;
	return -1;
}

static int open_apart(struct ground *ground, const struct series *series,
		      const struct page_kind *pages, size_t rungs, uint64_t deadline_ns)
{
	size_t most = series->ladder[rungs - 1];
	size_t count = pages_for(&series->layout, most, pages->bytes);
	int rc;

	if (arena_open(&ground->apart, pages->method, pages->bytes, count) != 0)
		return -1;
	if (series->sparse) {
		ground->usable = rungs;
		return fill_sparsely(&ground->apart, &series->layout, most);
	}
	rc = arena_extend(&ground->apart, count, deadline_ns);
	for (ground->usable = 0; ground->usable < rungs; ground->usable++)
		if (pages_for(&series->layout, series->ladder[ground->usable], pages->bytes) >
		    ground->apart.pages)
			break;
	if (ground->usable == 0 && rc == 0)
		errno = ETIME;
	return ground->usable ? 0 : -1;
}

int ground_open(struct ground *ground, const struct machine *machine,
		const struct series *series, const struct page_kind *pages, size_t rungs,
		double touch_share, uint64_t deadline_ns)
{
	const struct layout packed = layout_packed(machine->line_bytes);
	size_t most = series->ladder[rungs - 1];
	uint64_t now = clock_ns();

	memset(ground, 0, sizeof(*ground));
	if (now >= deadline_ns) {
		errno = ETIME;
		return -1;
	}
	for (unsigned i = 0; i < 2; i++) {
		ground->orders[i] = malloc(most * sizeof(*ground->orders[i]));
		if (!ground->orders[i])
			return -1;
	}
	if (!series->alone &&
	    fill(&ground->packed, &machine->packed,
		 pages_for(&packed, most, machine->packed.bytes), deadline_ns) != 0)
		return -1;
	/*
	 * First-touching gigabytes may take seconds, the more so in a guest
	 * whose host has not backed them yet: keep time to measure.
	 */
	return open_apart(ground, series, pages, rungs,
			  now + (uint64_t)((double)(deadline_ns - now) * touch_share));
}

int ground_holds(const struct ground *ground)
{
	return arena_holds(&ground->apart) == 1 &&
	       (!ground->packed.mapping || arena_holds(&ground->packed) == 1);
}

unsigned ground_chases(const struct ground *ground, const struct machine *machine,
		       const struct series *series, size_t lines, struct chase chases[2])
{
	chases[0] = (struct chase){
		.memory = ground->apart.memory, .layout = series->layout, .lines = lines,
		.order = ground->orders[0],
	};
	chases[1] = (struct chase){
		.memory = ground->packed.memory, .layout = layout_packed(machine->line_bytes),
		.lines = lines, .order = ground->orders[1],
	};
	return series->alone ? 1 : 2;
}

void ground_close(struct ground *ground)
{
	arena_close(&ground->apart);
	arena_close(&ground->packed);
	free(ground->orders[0]);
	free(ground->orders[1]);
	memset(ground, 0, sizeof(*ground));
}
