/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "chain_memory.h"

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

size_t chain_memory_bytes(const struct machine *machine, const struct series *series,
			  const struct page_kind *pages, size_t lines)
{
	size_t bytes = apart_bytes(series, pages, lines);

	return series->alone ? bytes : bytes + packed_bytes(machine, lines);
}

static int fits(const struct machine *machine, const struct series *series,
		const struct page_kind *pages, size_t lines)
{
	size_t apart = apart_bytes(series, pages, lines);
	size_t both = chain_memory_bytes(machine, series, pages, lines);

	if (pages->bytes == machine->packed.bytes)
		return both <= pages->limit_bytes;
	return apart <= pages->limit_bytes && both - apart <= machine->packed.limit_bytes &&
	       both <= machine->memory_limit_bytes;
}

size_t chain_memory_points(const struct machine *machine, const struct series *series,
			   const struct page_kind *pages)
{
	size_t n = 0;

	while (n < series->points && fits(machine, series, pages, series->ladder[n]))
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

static int open_apart(struct chain_memory *memory, const struct series *series,
		      const struct page_kind *pages, size_t points, uint64_t deadline_ns)
{
	size_t most = series->ladder[points - 1];
	size_t count = pages_for(&series->layout, most, pages->bytes);
	int rc;

	if (arena_open(&memory->apart, pages->method, pages->bytes, count) != 0)
		return -1;
	if (series->sparse) {
		memory->usable = points;
		return fill_sparsely(&memory->apart, &series->layout, most);
	}
	rc = arena_extend(&memory->apart, count, deadline_ns);
	for (memory->usable = 0; memory->usable < points; memory->usable++)
		if (pages_for(&series->layout, series->ladder[memory->usable], pages->bytes) >
		    memory->apart.pages)
			break;
	if (memory->usable == 0 && rc == 0)
		errno = ETIME;
	return memory->usable ? 0 : -1;
}

int chain_memory_open(struct chain_memory *memory, const struct machine *machine,
		      const struct series *series, const struct page_kind *pages, size_t points,
		      double touch_share, uint64_t deadline_ns)
{
	const struct layout packed = layout_packed(machine->line_bytes);
	size_t most = series->ladder[points - 1];
	uint64_t now = clock_ns();

	memset(memory, 0, sizeof(*memory));
	if (now >= deadline_ns) {
		errno = ETIME;
		return -1;
	}
	for (unsigned i = 0; i < 2; i++) {
		memory->orders[i] = malloc(most * sizeof(*memory->orders[i]));
		if (!memory->orders[i])
			return -1;
	}
	if (!series->alone &&
	    fill(&memory->packed, &machine->packed,
		 pages_for(&packed, most, machine->packed.bytes), deadline_ns) != 0)
		return -1;
	/*
	 * First-touching gigabytes may take seconds, longer in a guest whose host has not
	 * backed them yet: keep time to measure.
	 */
	return open_apart(memory, series, pages, points,
			  now + (uint64_t)((double)(deadline_ns - now) * touch_share));
}

int chain_memory_holds(const struct chain_memory *memory)
{
	return arena_holds(&memory->apart) == 1 &&
	       (!memory->packed.mapping || arena_holds(&memory->packed) == 1);
}

unsigned chain_memory_chases(const struct chain_memory *memory, const struct machine *machine,
			     const struct series *series, size_t lines, struct chase chases[2])
{
	chases[0] = (struct chase){
		.memory = memory->apart.memory, .layout = series->layout, .lines = lines,
		.order = memory->orders[0],
	};
	chases[1] = (struct chase){
		.memory = memory->packed.memory, .layout = layout_packed(machine->line_bytes),
		.lines = lines, .order = memory->orders[1],
	};
	return series->alone ? 1 : 2;
}

void chain_memory_close(struct chain_memory *memory)
{
	arena_close(&memory->apart);
	arena_close(&memory->packed);
	free(memory->orders[0]);
	free(memory->orders[1]);
	memset(memory, 0, sizeof(*memory));
}
