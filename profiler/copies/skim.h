/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Most executed blocks touch only pages that are in the TLB models' filters, and change nothing but
 * the times of last use there.  So they are executed from the stream's records, place by place,
 * with the same result as by tlb_feed_block().
 */
#ifndef TLBCOST_COPIES_SKIM_H
#define TLBCOST_COPIES_SKIM_H

#include <stdint.h>

#include "code_cache.h"
#include "tlb_feed.h"

/* A part of the stream that begins with a block's number. */
struct skim {
	const struct translator *translator;
	uint64_t fs_base;
	const uint64_t *record, *end;
};

/* What the feed's owner needs in addition. */
struct skim_use {
	uint64_t until;		/* the clock stays below this */
	/* A block that ends in a call or a return was executed. */
	void (*transferred)(void *context, const struct code_block *block, uint64_t next);
	void *context;
};

/*
 * Execute blocks from the beginning, up to one that takes more than that or the last one, whose
 * successor is not known; that is where ->record is then.  Returns their number of instructions.
 */
uint64_t skim(struct skim *skim, struct tlb_feed *feed, const struct skim_use *use);

#endif
