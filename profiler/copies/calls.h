/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The system calls of a copy.  Default deny: it makes those alone that change nothing but its own
 * private memory and signal state; a few are answered, and any other ends its window.
 */
#ifndef TLBCOST_COPIES_CALLS_H
#define TLBCOST_COPIES_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "copy.h"
#include "shared_memory.h"

enum call_verdict {
	CALL_ENDS,	/* the window ends before it */
	CALL_REAL,	/* the copy makes it */
	CALL_ANSWERED,	/* its result is in rax */
};

/* Where it must change nothing: our area, and what was shared. */
struct call_limits {
	uint64_t area, area_bytes;
	struct shared_memory *shared;
};

/* The copy is about to make the call in its registers. */
enum call_verdict calls_decide(struct copy *copy, struct user_regs_struct *registers,
			       const struct call_limits *limits);

/* Whether a call that changes mappings, with these registers, changes private memory alone. */
bool calls_change_is_private(const struct user_regs_struct *registers,
			     const struct call_limits *limits);

/*
 * Advice of madvise() whose effect ends with the caller's page tables: not REMOVE, PAGEOUT,
 * COLLAPSE, WILLNEED (which act on files), MERGEABLE, SOFT_OFFLINE or what kernels may add.
 */
static inline bool calls_advice_is_private(uint64_t advice)
{
	/* NORMAL RANDOM SEQUENTIAL DONTNEED FREE DONTFORK DOFORK */
	const uint64_t older = 1u << 0 | 1u << 1 | 1u << 2 | 1u << 4 | 1u << 8 | 1u << 10 | 1u << 11;
	/* HUGEPAGE NOHUGEPAGE DONTDUMP DODUMP POPULATE_READ POPULATE_WRITE */
	const uint64_t newer = 1u << 14 | 1u << 15 | 1u << 16 | 1u << 17 | 1u << 22 | 1u << 23;

	return advice < 32 && ((older | newer) >> advice & 1);
}

#endif
