/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is mapped at this address?  The mapped parts of an address space, each with what is known of
 * it, updated as calls map and unmap them.
 */
#ifndef TLBCOST_EXTENTS_H
#define TLBCOST_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct extent {
	uint64_t start, end;
	void *site;	/* that mapped it; NULL: not known */
	uint32_t flags;		/* the caller's */
	uint32_t mapping;		/* the caller's; 0: none yet */
};

struct extents {
	/* Returns memory, or NULL. */
	void *(*allocate)(size_t bytes);
	void (*release)(void *memory);
	/* Called for what is removed; may be NULL. */
	void (*removed)(uint32_t mapping, uint64_t bytes);
	bool failed;			/* out of memory: some are not known */
	struct extent *extent;		/* by address; none overlap */
	size_t count, capacity;
};

/* The addresses from start on, below end, are no longer mapped. */
void extents_remove(struct extents *extents, uint64_t start, uint64_t end);

/* They now belong to this one, and to no other. */
void extents_add(struct extents *extents, struct extent extent);

/* The one that holds the address; NULL: none.  Valid until one is added or removed. */
struct extent *extents_find(const struct extents *extents, uint64_t address);

#endif
