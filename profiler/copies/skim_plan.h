/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which places of memory does a block access?  Found once, for skim.c. */
#ifndef TLBCOST_COPIES_SKIM_PLAN_H
#define TLBCOST_COPIES_SKIM_PLAN_H

#include <stdbool.h>
#include <stdint.h>

/* References that are at near distances from one record, or from each other. */
struct skim_place {
	int64_t displacement;	/* of the first byte */
	uint16_t last_byte;	/* from there */
	uint8_t record;		/* that it is relative to */
	bool fs;		/* and to the FS base */
	uint8_t used;		/* when it is used last: references of the block before that */
};

/* Blocks with more places are rare. */
#define SKIM_MOST_PLACES 32u

/* Of a block with the parts before it. */
struct skim_plan {
	/* Of its places, by the time of their last use; above SKIM_MOST_PLACES: do not skim it. */
	uint8_t count;
	bool jumps;		/* it ends by an indirect jump or call, or a return */
	bool transfers;		/* it ends by a call or a return */
	uint8_t references;	/* a read and a write of the same bytes are two */
	uint8_t instructions;
	uint64_t address, last;	/* of its first byte of code, and its last */
};

#endif
