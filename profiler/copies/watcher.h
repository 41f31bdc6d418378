/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What observes the instructions that a copy executes (follow.h). */
#ifndef TLBCOST_COPIES_WATCHER_H
#define TLBCOST_COPIES_WATCHER_H

#include <stdbool.h>
#include <stdint.h>

#include "code_block.h"

struct instruction;	/* decoded: instruction.h */

struct watcher {
	/*
	 * A block was translated; `decoded` has its instructions.  What it returns is the block's
	 * `watched` until forgotten() is called.  May be NULL.
	 */
	void *(*translated)(void *context, const struct code_block *block,
			    const struct instruction *decoded);
	void (*forgotten)(void *context, void *watched);
	/*
	 * All blocks are about to be freed, and forgotten if they have a `watched`.  May be NULL.
	 */
	void (*clearing)(void *context);
	/*
	 * A block was executed.  addresses[i] is where reference i was; `next` is the address of
	 * the block executed after it, 0 if there is none.  Returns false to end the window: the
	 * copy may have run on by then, and what it did is dropped.
	 */
	bool (*executed)(void *context, const struct code_block *block,
			 const uint64_t *addresses, uint64_t next);
	void *context;
};

#endif
