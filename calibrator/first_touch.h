/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long does the first touch of a page take, and of one shared with a child, as distributions? */
#ifndef TLBCOST_FIRST_TOUCH_H
#define TLBCOST_FIRST_TOUCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"

/* Of touches one after the other; the worst of few touches is also their p99.9. */
struct touch_times {
	size_t count;
	uint64_t median_ns, p99_ns, p999_ns, worst_ns, total_ns;
};

struct first_touches {
	struct touch_times first;	/* of fresh pages */
	uint64_t huge_bytes;		/* of these, on transparent huge pages */
	/* What a server pays while a child, as a snapshot, has the same memory: a write to each base
	 * page of at most 128 MiB after a fork.  No count: it could not fork. */
	struct touch_times forked;
	uint64_t forked_huge_bytes;	/* of that part, on huge pages before the writes */
	uint64_t kept_huge_bytes;	/* and after them; the kernel has split the others */
};

/*
 * Touch `pages` fresh pages of anonymous memory that asks for pages of this size, and time each:
 * whatever the kernel does for it, compaction included.  Then write to it after a fork, a byte for
 * each `base_bytes`.  Returns 0, or -1 with errno.
 */
int first_touches_time(enum arena_method method, size_t page_bytes, size_t pages,
		       size_t base_bytes, struct first_touches *touches);

/*
 * The same for base pages and for huge pages (0: there are none), `bytes` of each, as a
 * 'first_touches' table.  `at_hand`: the memory is touched once before.  Returns 0, or -1 with errno.
 */
int first_touches_write(const char *path, size_t bytes, size_t base_bytes, size_t huge_bytes,
			bool at_hand);

#endif
