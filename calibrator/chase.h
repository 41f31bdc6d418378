/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long does one access take to memory with one line every `stride` bytes?
 *
 * The lines of a chain are at memory, memory + stride, ...  A stride of one page
 * and one line gives every line a page of its own and spreads the lines over
 * the cache's sets; a stride of a few lines gives the same number of lines in
 * few pages.  Both are timed by the same instructions, so that their difference
 * is address translation.
 */
#ifndef TLBCOST_CHASE_H
#define TLBCOST_CHASE_H

#include <stddef.h>
#include <stdint.h>

struct chase {
	char *memory;
	size_t stride;		/* bytes; a multiple of a pointer's size */
	size_t lines;
};

/* The next number of a random sequence; *state is any seed. */
uint64_t chase_random(uint64_t *state);

/* Fill order[0..n) with the numbers 0..n-1 in random order. */
void chase_shuffle(uint32_t *order, size_t n, uint64_t *seed);

/*
 * Make the ring: each line's first word becomes the address of the next line,
 * in random order, one cycle through all.  `order` has room for chase->lines.
 */
void chase_link(const struct chase *chase, uint32_t *order, uint64_t *seed);

/* Follow the ring for `count` steps, each needing the last; the line reached. */
void *chase_serial(void *start, size_t count);

/*
 * Update `count` lines chosen by a generator that lives in registers; no access
 * needs the last one's data.  Leaves the ring as it is.  Returns the new state.
 */
uint64_t chase_overlapped(const struct chase *chase, size_t count, uint64_t state);

/* ns per access of the loops above, which go on from *at or *state and leave it at the end. */
double chase_time_serial(void **at, size_t count);
double chase_time_overlapped(const struct chase *chase, size_t count, uint64_t *state);

#endif
