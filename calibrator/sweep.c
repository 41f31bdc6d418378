/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "sweep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "chase.h"
#include "clock.h"
#include "pair.h"

/* The memory of a sweep, and how much of the ladder fits into it. */
struct ground {
	struct arena apart;
	struct arena packed;
	uint32_t *order;
	size_t usable;		/* footprints */
};

static size_t stride_apart(const struct sweep_machine *machine, const struct sweep_group *group)
{
	/*
	 * One line more than the spacing, so that the lines fill the cache's
	 * sets evenly.  Between huge pages also one base page more: under a
	 * hypervisor that backs the guest with base pages the TLB holds base
	 * pages, and equal low bits would crowd them into one set.
	 */
	if (group->spacing > machine->base_bytes)
		return group->spacing + machine->base_bytes + machine->line_bytes;
	return group->spacing + machine->line_bytes;
}

/*
 * Packed lines are three lines apart: an odd number fills all sets evenly, and
 * no two share the pair of lines that Intel's prefetcher fetches as one.
 */
static size_t stride_packed(const struct sweep_machine *machine)
{
	return SWEEP_PACKED_LINES * machine->line_bytes;
}

static size_t pages_for(size_t lines, size_t stride, size_t page_bytes)
{
	return lines * stride / page_bytes + 1;
}

size_t sweep_bytes(const struct sweep_machine *machine, const struct sweep_group *group,
		   uint32_t lines)
{
	size_t packed_page = machine->huge_bytes ? machine->huge_bytes : machine->base_bytes;

	return pages_for(lines, stride_apart(machine, group), group->page_bytes) *
		       group->page_bytes +
	       pages_for(lines, stride_packed(machine), packed_page) * packed_page;
}

/* Packed lines lie in huge pages if possible, so that they need few TLB entries. */
static int open_packed(const struct sweep_machine *machine, struct arena *arena, size_t lines,
		       uint64_t deadline_ns)
{
	size_t stride = stride_packed(machine), pages;

	if (machine->huge_bytes) {
		pages = pages_for(lines, stride, machine->huge_bytes);
		if (arena_open(arena, machine->huge_method, machine->huge_bytes, pages) == 0 &&
		    arena_extend(arena, pages, deadline_ns) == 0 && arena->pages == pages)
			return 0;
		arena_close(arena);
	}
	pages = pages_for(lines, stride, machine->base_bytes);
	if (arena_open(arena, ARENA_BASE, machine->base_bytes, pages) != 0)
		return -1;
	if (arena_extend(arena, pages, deadline_ns) != 0)
		return -1;
	if (arena->pages < pages) {
		errno = ETIME;
		return -1;
	}
	return 0;
}

static void close_ground(struct ground *ground)
{
	arena_close(&ground->apart);
	arena_close(&ground->packed);
}

/* The footprints of the ladder that the limit on memory allows. */
static size_t allowed(const struct sweep_machine *machine, const struct sweep_group *group)
{
	size_t limit = group->method == ARENA_BASE ? machine->memory_limit : machine->huge_limit;
	size_t n = 0;

	while (n < group->footprint_count &&
	       sweep_bytes(machine, group, group->footprints[n]) <= limit)
		n++;
	return n;
}

/*
 * Fresh memory for the largest allowed footprint, or for what the kernel and the
 * time give of it.  Returns 0, or -1 with errno set if not even the smallest fits.
 */
static int open_ground(const struct sweep_machine *machine, const struct sweep_group *group,
		       size_t count, struct ground *ground)
{
	size_t stride = stride_apart(machine, group), pages;
	uint64_t deadline = group->deadline_ns, now = clock_ns();
	uint32_t most = group->footprints[count - 1];
	int rc;

	if (now >= deadline) {
		errno = ETIME;
		return -1;
	}
	pages = pages_for(most, stride, group->page_bytes);
	if (open_packed(machine, &ground->packed, most, deadline) != 0 ||
	    arena_open(&ground->apart, group->method, group->page_bytes, pages) != 0)
		return -1;
	/*
	 * First-touching gigabytes may take seconds, the more so in a guest
	 * whose host has not backed them yet: keep most of the time to measure.
	 */
	deadline = now + (uint64_t)((double)(deadline - now) * group->touch_share);
	rc = arena_extend(&ground->apart, pages, deadline);
	ground->usable = 0;
	while (ground->usable < count &&
	       pages_for(group->footprints[ground->usable], stride, group->page_bytes) <=
		       ground->apart.pages)
		ground->usable++;
	if (ground->usable == 0) {
		if (rc == 0)
			errno = ETIME;
		return -1;
	}
	return 0;
}

static int add(struct samples *samples, const struct sweep_group *group, uint32_t lines,
	       const char *layout, const char *access, unsigned repetition, double ns)
{
	return samples_add(samples, (struct sample){
		.probe = "tlb", .layout = layout, .access = access,
		.page_bytes = group->page_bytes, .pages = lines,
		.repetition = repetition, .ns = ns,
	});
}

/* Time one footprint: both layouts, the first one changing with the sweep. */
static int measure(struct sweep_machine *machine, const struct sweep_group *group,
		   const struct ground *ground, uint32_t lines, unsigned repetition,
		   struct samples *samples)
{
	const struct chase chases[2] = {
		{ ground->apart.memory, stride_apart(machine, group), lines },
		{ ground->packed.memory, stride_packed(machine), lines },
	};
	const char *const layouts[2] = { group->layout, "packed" };
	const uint64_t state = chase_random(&machine->seed);
	double ns[2];

	for (unsigned i = 0; i < 2; i++)
		chase_link(&chases[i], ground->order, &machine->seed);
	for (int serial = 1; serial >= 0; serial--) {
		pair_time(chases, serial, state, repetition & 1, ns);
		for (unsigned i = 0; i < 2; i++)
			if (add(samples, group, lines, layouts[i],
				serial ? "serial" : "overlapped", repetition, ns[i]) != 0)
				return -1;
	}
	return 0;
}

static void note(struct samples *samples, const char *what, const struct sweep_group *group,
		 const char *text)
{
	char key[48];

	snprintf(key, sizeof(key), "%s_%zu_%s", what, group->page_bytes, group->name);
	samples_note(samples, key, "%s", text);
}

static void note_failure(struct samples *samples, const struct sweep_group *group, int error)
{
	const char *reason = strerror(error);

	if (error == ENODATA)
		reason = "the kernel did not give pages of this size";
	else if (error == ETIME)
		reason = "no time was left";
	else if (error == ENOMEM)
		reason = group->method == ARENA_HUGETLB ? "the hugetlb pool has no free pages" :
							  "not enough memory or address space";
	note(samples, "skipped", group, reason);
}

static void note_usable(struct samples *samples, const struct sweep_group *group, size_t usable)
{
	char text[120];

	if (usable == group->footprint_count)
		return;
	snprintf(text, sizeof(text), "footprints up to %u pages of %u: memory or time allowed no more",
		 group->footprints[usable - 1], group->footprints[group->footprint_count - 1]);
	note(samples, "limited", group, text);
}

/* One sweep.  Returns 1 done, 0 out of time, -1 with errno set. */
static int sweep_once(struct sweep_machine *machine, const struct sweep_group *group,
		      const struct ground *ground, unsigned sweep, struct samples *samples)
{
	size_t i;

	for (size_t n = 0; n < ground->usable; n++) {
		if (clock_ns() >= group->deadline_ns)
			return 0;
		/* Every other sweep runs downwards, against what drifts within one. */
		i = sweep & 1 ? ground->usable - 1 - n : n;
		if (measure(machine, group, ground, group->footprints[i],
			    group->first_repetition + sweep, samples) != 0)
			return -1;
	}
	return 1;
}

int sweep_run(struct sweep_machine *machine, const struct sweep_group *group,
	      struct samples *samples)
{
	size_t count = allowed(machine, group);
	struct ground ground = { 0 };
	unsigned sweep;
	char text[80];
	int rc = 1;

	if (count == 0) {
		note_failure(samples, group, ENOMEM);
		return 0;
	}
	ground.order = malloc(group->footprints[count - 1] * sizeof(*ground.order));
	if (!ground.order)
		return -1;
	for (sweep = 0; sweep < group->sweeps && rc == 1; sweep++) {
		if (sweep % group->sweeps_per_arena == 0) {
			close_ground(&ground);
			if (open_ground(machine, group, count, &ground) != 0) {
				rc = 0;
				if (sweep == 0)
					note_failure(samples, group, errno);
				break;
			}
			note_usable(samples, group, ground.usable);
		}
		/* The kernel may split or join pages at any time; so prove it anew. */
		if (arena_holds(&ground.apart) != 1) {
			note(samples, "stopped", group, "the kernel changed the page size");
			break;
		}
		rc = sweep_once(machine, group, &ground, sweep, samples);
		machine->progress(machine->closure, (sweep + 1) / (double)group->sweeps);
	}
	if (rc == 0 && sweep > 0) {
		snprintf(text, sizeof(text), "%u of %u sweeps: the time limit",
			 group->sweeps - sweep, group->sweeps);
		note(samples, "dropped", group, text);
	}
	close_ground(&ground);
	free(ground.order);
	return rc < 0 ? -1 : 0;
}
