/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which pages does a process have, of the memory that THP serves? */
#ifndef TLBCOST_COPIES_PAGE_RUNS_H
#define TLBCOST_COPIES_PAGE_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "copy_mappings.h"

/* In /proc/PID/pagemap: no other process maps this frame. */
#define PAGEMAP_EXCLUSIVE (UINT64_C(1) << 56)

/* Anonymous private memory that has pages, in the order of addresses. */
struct page_runs {
	struct page_run {
		uint64_t start, end;	/* whole pages, within one mapping */
		uint64_t mapping_start, mapping_end;
		uint64_t protection;	/* of the mapping: PROT_ bits */
	} *all;
	size_t count, capacity;
	uint64_t bytes;
};

/* Which pages are there now.  Returns 0, or -1 with errno; page_runs_free() in both cases. */
int page_runs_read(struct page_runs *runs, pid_t pid);
void page_runs_free(struct page_runs *runs);

/*
 * The pages of `all` that this process has to itself, with small holes between them: after a fork,
 * those that it has written.  All of them if that cannot be seen.  Returns 0, or -1 with errno;
 * page_runs_free() in both cases.
 */
int page_runs_exclusive(struct page_runs *exclusive, const struct page_runs *all, pid_t pid);

/*
 * Those runs of `all` that are not, with the same ends, in `before`.  Returns 0, or -1 with errno;
 * page_runs_free() in both cases.
 */
int page_runs_new(struct page_runs *new, const struct page_runs *all,
		  const struct page_runs *before);

#define PAGEMAP_ENTRIES 8192u

/*
 * The entries of the pages from `start` to `end`, as many as there is space for; all bits are set
 * where they cannot be read.  Returns how many.
 */
size_t pagemap_read(int pagemap, uint64_t entries[PAGEMAP_ENTRIES], uint64_t start, uint64_t end);

/* Memory that THP serves, and that a process has for itself. */
bool page_runs_are_of(const struct copy_mapping *mapping);

#endif
