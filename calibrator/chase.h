/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long does one access take to memory with this layout of lines?
 *
 * A layout with a page from line to line gives every line a page of its own; a packed one
 * gives the same number of lines in few pages.  Both are timed with the same instructions, so
 * their difference is address translation.
 */
#ifndef TLBCOST_CHASE_H
#define TLBCOST_CHASE_H

#include <stddef.h>
#include <stdint.h>

#include "layout.h"

enum chase_access {
	CHASE_SERIAL,		/* each access needs the last one's data */
	CHASE_OVERLAPPED,	/* independent updates */
	CHASE_STORE,		/* independent stores */
	CHASE_CHAINS_2,		/* this many serial chains side by side */
	CHASE_CHAINS_4,
	CHASE_CHAINS_8,
	CHASE_INDEPENDENT,	/* independent reads in the order of the ring */
	CHASE_SEQUENTIAL,	/* reads in the order of addresses */
	CHASE_FLUSHED,		/* serial, over lines flushed by chase_flush() */
};

#define CHASE_MOST_CHAINS 8

struct chase {
	char *memory;
	struct layout layout;
	size_t lines;
	uint32_t *order;	/* for `lines` elements; chase_link() fills it */
};

/* Write to every line, in the order of addresses, so that its page is resident. */
void chase_touch(const struct chase *chase);

/* Read every line in the order of addresses. */
void chase_read(const struct chase *chase);

/* Flush every line from all caches.  Returns 0, or -1 with errno ENOTSUP. */
int chase_flush(const struct chase *chase);

/*
 * Make the ring: each line's first word becomes the address of the next line,
 * one cycle through all, in the order of order_lines().
 */
void chase_link(const struct chase *chase, uint64_t *seed);

/* Follow the ring for `count` dependent steps; returns the line reached. */
void *chase_serial(void *start, size_t count);

/* The position of the loops over a linked chain. */
struct chase_run {
	const struct chase *chase;
	void *at[CHASE_MOST_CHAINS];
	uint64_t state;		/* of the generator of overlapped updates */
	size_t next;		/* store, independent, sequential */
};

/* Start at evenly spaced lines of the linked ring; `seed` is for the overlapped updates. */
struct chase_run chase_start(const struct chase *chase, uint64_t seed);

/*
 * ns per access of `count` accesses (a multiple of CHASE_MOST_CHAINS), continuing where the
 * last call ended.  Updates, stores, independent and sequential reads leave the ring as it is,
 * and require lines that are all `stride` bytes apart.
 */
double chase_time(struct chase_run *run, enum chase_access access, size_t count);

#endif
