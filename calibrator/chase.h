/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long does one access take to memory whose lines lie as a layout says?
 *
 * A layout with a page from line to line gives every line a page of its own; a
 * packed one gives the same number of lines in few pages.  Both are timed by the
 * same instructions, so that their difference is address translation.
 */
#ifndef TLBCOST_CHASE_H
#define TLBCOST_CHASE_H

#include <stddef.h>
#include <stdint.h>

#include "layout.h"

enum chase_access {
	CHASE_SERIAL,		/* each access needs the last one's data */
	CHASE_OVERLAPPED,	/* updates that need nothing of each other */
	CHASE_STORE,		/* stores that need nothing of each other */
	CHASE_CHAINS_2,		/* so many serial chains side by side */
	CHASE_CHAINS_4,
	CHASE_CHAINS_8,
	CHASE_INDEPENDENT,	/* reads in the order of the ring that need nothing of each other */
	CHASE_SEQUENTIAL,	/* reads in the order of addresses */
	CHASE_FLUSHED,		/* serial, over lines that chase_flush() took out of the caches */
};

#define CHASE_MOST_CHAINS 8

struct chase {
	char *memory;
	struct layout layout;
	size_t lines;
	uint32_t *order;	/* room for `lines`; chase_link() fills it */
};

/* Write to every line, in the order of addresses, so that its page is there. */
void chase_touch(const struct chase *chase);

/* Read every line in the order of addresses. */
void chase_read(const struct chase *chase);

/* Take every line out of all caches.  Returns 0, or -1 with errno ENOTSUP. */
int chase_flush(const struct chase *chase);

/*
 * Make the ring: each line's first word becomes the address of the next line,
 * one cycle through all, in the order of order_lines().
 */
void chase_link(const struct chase *chase, uint64_t *seed);

/* Follow the ring for `count` steps, each needing the last; the line reached. */
void *chase_serial(void *start, size_t count);

/* Where the loops over a chain, which is linked, have got to. */
struct chase_run {
	const struct chase *chase;
	void *at[CHASE_MOST_CHAINS];
	uint64_t state;		/* of the generator of overlapped updates */
	size_t next;		/* store, independent, sequential */
};

/* Start at evenly spaced lines of the linked ring; `seed` is for the overlapped updates. */
struct chase_run chase_start(const struct chase *chase, uint64_t seed);

/*
 * ns per access of `count` accesses (a multiple of CHASE_MOST_CHAINS), going on
 * where the last call ended.  Updates, stores, independent and sequential reads leave the
 * ring as it is, and want lines that are all `stride` bytes apart.
 */
double chase_time(struct chase_run *run, enum chase_access access, size_t count);

#endif
