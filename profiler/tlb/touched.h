/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many base pages did a process touch, and how many huge pages would hold
 * them?  A bitmap of base pages for each touched huge-page-sized region.
 */
#ifndef TLBCOST_TOUCHED_H
#define TLBCOST_TOUCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct touched {
	/* Returns zeroed memory, or NULL. */
	void *(*allocate)(size_t bytes);
	void (*release)(void *memory);
	/*
	 * Is the page at this address anonymous private memory, which huge pages can back
	 * without changing the program?
	 */
	bool (*anonymous)(uint64_t address);

	uint32_t base_shift, huge_shift;

	uint64_t anonymous_pages;	/* base pages */
	uint64_t anonymous_regions;	/* huge pages that would hold them */
	uint64_t other_pages;
	bool failed;			/* out of memory: counts are too low */

	/* Private: hash table from region number to a record of
	   record_words words: number + 1, flags, bitmap. */
	uint64_t *records;
	uint64_t *last;			/* the record found last */
	size_t capacity, used, record_words;
};

/*
 * Start with nothing touched.  The callbacks and shifts are set by the
 * caller.  Returns 0, or -1 if there is no memory.
 */
int touched_init(struct touched *touched);

/* Forget everything, as after fork() or exec(). */
void touched_reset(struct touched *touched);

/* Note that the base page at `address` was touched. */
void touched_note(struct touched *touched, uint64_t address);

#endif
