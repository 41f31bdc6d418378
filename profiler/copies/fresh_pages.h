/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which anonymous pages did a copy not have yet when its window began?  The kernel clears such a
 * page when it is first touched, which leaves its lines in the near caches.
 */
#ifndef TLBCOST_COPIES_FRESH_PAGES_H
#define TLBCOST_COPIES_FRESH_PAGES_H

#include "copy_mappings.h"
#include "page_runs.h"

struct fresh_pages {
	struct copy_mappings mappings;
	struct page_runs present;
	bool known;
};

/* Look at the copy's pages.  If that fails, none is fresh.  fresh_pages_free() in both cases. */
void fresh_pages_read(struct fresh_pages *fresh, pid_t pid);
void fresh_pages_free(struct fresh_pages *fresh);

/* Did the page of this address not exist then?  Memory that is mapped since is anonymous, too. */
bool fresh_pages_have(const struct fresh_pages *fresh, uint64_t address);

#endif
