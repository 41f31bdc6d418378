/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The last executed blocks of a copy, with their addresses: a queue.  A window measures what the
 * copy did last, and when that is becomes known only at its end; and the copy is dead by the time
 * the slow models see it.
 */
#ifndef TLBCOST_COPIES_KEPT_BLOCKS_H
#define TLBCOST_COPIES_KEPT_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "code_block.h"

/* An executed block; the addresses of its references follow. */
struct kept_block {
	const struct code_block *block;
	uint64_t next;			/* address of the block after it; 0: there is none */
	uint64_t addresses[];
};

/* Zeroed is empty. */
struct kept_blocks {
	uint64_t *words;
	size_t head, tail, capacity;	/* in words */
	uint64_t references, instructions;	/* of all blocks in it */
};

/* Returns 0, or -1 with errno ENOMEM. */
int kept_blocks_add(struct kept_blocks *kept, const struct code_block *block,
		    const uint64_t *addresses, uint64_t next);

/* Take the oldest one out, NULL if there is none; it is good until the next one is added. */
const struct kept_block *kept_blocks_take(struct kept_blocks *kept);

void kept_blocks_clear(struct kept_blocks *kept);
void kept_blocks_free(struct kept_blocks *kept);

#endif
