/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When was a page last walked to?  Since then its page-table entry has not been read; and the
 * line of that entry not since the last walk to any of the eight pages whose entries are in
 * it.
 */
#ifndef TLBCOST_TIMING_RECENCY_H
#define TLBCOST_TIMING_RECENCY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RECENCY_PAGES 8u
#define RECENCY_BLOCKS (1u << 17)

/*
 * Blocks are of pages whose entries share a line.  Distant blocks may share a slot: the last
 * one is known.  If this is aligned to a cache line, so is each block: a walk reads one line
 * of these, and one of the blocks' numbers, which many share.
 */
struct recency {
	uint32_t walked[RECENCY_BLOCKS][RECENCY_PAGES];	/* time / 256 + 1; 0: not yet */
	uint32_t block[RECENCY_BLOCKS];		/* page / RECENCY_PAGES, low bits */
};

/* Since the page itself, and any of its line, was walked to; 0: never before. */
struct recency_ages {
	uint64_t page, line;
};

/* The page is walked to at this time, in references. */
void recency_walk(struct recency *recency, uint64_t page, uint64_t time);

/* Has another block taken the slot of the page's block, whose ages are lost? */
bool recency_lost(const struct recency *recency, uint64_t page);

/* How long ago was the last walk? */
struct recency_ages recency_look(const struct recency *recency, uint64_t page,
				 uint64_t time);

#endif
