/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What do accesses cost over a ladder of footprints, far apart and packed?
 *
 * A sweep times every footprint once, far apart and packed in turn, serial and
 * overlapped, so that a drift of the machine hits all alike.  Sweeps are
 * repeated; some of them on fresh memory, because where the kernel puts a page
 * matters to the caches.
 */
#ifndef TLBCOST_SWEEP_H
#define TLBCOST_SWEEP_H

#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "samples.h"

/* What all sweeps share. */
struct sweep_machine {
	size_t base_bytes;		/* page size of the kernel */
	size_t line_bytes;
	size_t huge_bytes;		/* 0: no huge pages here */
	enum arena_method huge_method;
	size_t memory_limit;		/* bytes that may be touched */
	size_t huge_limit;		/* the same for huge pages: a pool may hold less */
	uint64_t seed;
	/* Called between timings, never during one; share 0..1 of the group is done. */
	void (*progress)(void *closure, double share);
	void *closure;
};

struct sweep_group {
	const char *name;		/* for header keys: [a-z]+ */
	const char *layout;		/* `spread` or `dense` */
	enum arena_method method;
	size_t page_bytes;
	size_t spacing;			/* bytes from line to line, before the line shift */
	const uint32_t *footprints;	/* ascending, in lines */
	size_t footprint_count;
	unsigned sweeps;
	unsigned sweeps_per_arena;
	double touch_share;		/* of the time left, at most, goes into first touches */
	unsigned first_repetition;	/* number of the first sweep, unique per page size */
	uint64_t deadline_ns;		/* of clock_ns(): no timing starts after it */
};

/* Lines of a packed chain are this many lines apart. */
#define SWEEP_PACKED_LINES 3

/* Bytes of memory that a footprint of `lines` lines needs, packed chain included. */
size_t sweep_bytes(const struct sweep_machine *machine, const struct sweep_group *group,
		   uint32_t lines);

/*
 * Run a group and add its samples.  What memory or time did not allow is left
 * out, with a note of the reason in `samples`.  Returns 0, or -1 with errno set
 * if the probe itself failed (no memory for its own tables).
 */
int sweep_run(struct sweep_machine *machine, const struct sweep_group *group,
	      struct samples *samples);

#endif
