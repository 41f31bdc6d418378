/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where are the lines of a chain?
 *
 * Lines are `stride` bytes apart in blocks, and blocks `block_stride` bytes apart.
 * Plain arithmetic: page and line sizes are parameters, so that those of other
 * machines can be tested here.
 */
#ifndef TLBCOST_LAYOUT_H
#define TLBCOST_LAYOUT_H

#include <stddef.h>
#include <stdint.h>

struct layout {
	size_t spacing;		/* bytes from line to line as reported: without any shift */
	size_t stride;		/* with it, within a block; a multiple of a pointer's size */
	size_t block_lines;	/* SIZE_MAX: all lines are one block */
	size_t block_stride;
	size_t block_shift;	/* by how much a block is further into its page than the last, */
	size_t shift_wrap;	/* modulo this */
	int by_block;		/* a block is visited completely before the next one */
	size_t turn_bytes;	/* pieces of memory of this size are visited in turn; 0: none */
};

/* Lines of a packed chain are this many lines apart. */
#define LAYOUT_PACKED_LINES 3

/* Lines of a chain over regions: more than any second level is known to hold. */
#define LAYOUT_REGION_LINES 8192

/* Lines `spacing` bytes apart, each `shift` bytes further into its page than the last. */
struct layout layout_apart(size_t spacing, size_t shift);

/* Lines close together, in as few pages as their number allows. */
struct layout layout_packed(size_t line);

/*
 * One line every `spacing` bytes, a power of two, so that few sets of a TLB are used; each is
 * a line further into its page than the last, so that all sets of the caches are used.
 */
struct layout layout_strided(size_t spacing, size_t base, size_t line);

/* Every `every`th line of memory; random order within windows that the TLB holds. */
struct layout layout_windows(size_t every, size_t base, size_t line);

/* Bytes that one last-level page table maps, with page table entries of 8 bytes. */
size_t layout_region_bytes(size_t base);

#define LAYOUT_MOST_REGIONS 1024

/*
 * LAYOUT_REGION_LINES pages over about `regions` regions, which are visited in turn: exactly
 * over lines x spacing / region.  The page table entries are in the same number of cache lines
 * for any number of regions.
 */
struct layout layout_regions(size_t regions, size_t base, size_t line);

/* Bytes from the start of memory to line number `line`. */
size_t layout_place(const struct layout *layout, size_t line);

/* Bytes of memory that this many lines span. */
size_t layout_span(const struct layout *layout, size_t lines);

#endif
