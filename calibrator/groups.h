/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is there to measure: which chains, over which footprints, how often? */
#ifndef TLBCOST_GROUPS_H
#define TLBCOST_GROUPS_H

#include <stddef.h>
#include <stdint.h>

#include "chase.h"
#include "machine.h"

/* In the order in which they are measured. */
enum group_id {
	GROUP_CYCLES,
	GROUP_FAULTS,
	GROUP_NEAR,
	GROUP_MIDDLE,
	GROUP_FAR,
	GROUP_DENSE,
	GROUP_LOADS,
	GROUP_STREAM,
	GROUP_MEMORY,
	GROUP_RESIDENCY,
	GROUP_LARGE,
	GROUP_STORES,
	GROUP_CHAINS,
	GROUP_WAYS,
	GROUP_REGIONS,
	GROUP_CODE,
	GROUP_CACHES,
	GROUP_COUNT,
};

/* The page sizes that a group is measured on. */
enum group_pages {
	PAGES_ANY,	/* not on memory, or on all of them */
	PAGES_BASE,
	PAGES_LARGER,
	PAGES_PACKED,	/* what the machine's packed chains lie in */
};

struct group {
	const char *name;
	const char *probe;		/* as in doc/format.md */
	const char *layout;
	enum group_pages pages;
	const uint32_t *ladder;		/* ascending, in lines */
	size_t points;
	unsigned accesses;		/* 1 << enum chase_access, of each */
	unsigned sweeps;
	unsigned sweeps_per_arena;	/* then on fresh memory */
	double touch_share;		/* of the time left, at most, goes into first touches */
	double weight;			/* its share of the time: seconds on a quiet machine */
};

extern const struct group groups[GROUP_COUNT];

/* What is measured by default, as bits 1 << enum group_id. */
extern const unsigned groups_default;

/* The group of this name (`length` bytes), or GROUP_COUNT. */
enum group_id group_named(const char *name, size_t length);

/* Chains of a group that share a layout and memory. */
struct series {
	struct layout layout;
	const char *name;		/* of the layout, as in doc/format.md */
	const uint32_t *ladder;
	size_t points;
	int sparse;			/* only its lines' pages are touched */
	int alone;			/* without a packed chain */
};

#define MOST_SERIES 20

/* The series of a group on pages of one size: how many were written to `series`. */
size_t group_series(enum group_id id, const struct machine *machine, size_t page_bytes,
		    struct series series[MOST_SERIES]);

#endif
