/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What do all measurements share: the machine, what they may use of it, and where they run? */
#ifndef TLBCOST_MACHINE_H
#define TLBCOST_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include "arena.h"

/* Pages of one size, and how to get them. */
struct page_kind {
	size_t bytes;
	enum arena_method method;
	size_t limit_bytes;		/* that may be touched: a pool may hold less */
};

struct machine {
	struct page_kind base;
	struct page_kind packed;	/* the pages that packed chains and caches' chains are in */
	size_t line_bytes;
	size_t memory_limit_bytes;	/* bytes that may be touched */
	uint64_t seed;
	int cpu;			/* the one that we are pinned to */
	int cpu_gone;			/* it went offline: nothing can be measured any more */
	unsigned sweeps;		/* begun so far, in all groups */
	unsigned timings, interrupted;	/* of chains, jumps and faults; without the CPU in between */
	/* Called between timings, never during one; share 0..1 of the group is done. */
	void (*progress)(void *closure, double share);
	void *closure;
};

#endif
