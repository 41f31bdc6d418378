/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What does a copy execute, and which memory does it access?  The copy runs translated code; a
 * watcher sees each block that was executed, in order, with the addresses of its references.
 */
#ifndef TLBCOST_COPIES_FOLLOW_H
#define TLBCOST_COPIES_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "code_block.h"
#include "copy.h"

struct instruction;	/* decoded: instruction.h */
struct translator;	/* the code cache, kept from copy to copy of one program: translator.h */

struct watcher {
	/*
	 * A block was translated; `decoded` has its instructions.  What it returns is the block's
	 * `watched` until forgotten() is called.  May be NULL.
	 */
	void *(*translated)(void *context, const struct code_block *block,
			    const struct instruction *decoded);
	void (*forgotten)(void *context, void *watched);
	/* All blocks are about to be freed, and forgotten if they have a `watched`.  May be NULL. */
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

enum follow_end {
	FOLLOW_ENOUGH,		/* the watcher wanted no more */
	FOLLOW_CALL,		/* a system call that a copy must not make: `call` */
	FOLLOW_FAULT,		/* a signal: `call` is its number, `address` where */
	FOLLOW_INSTRUCTION,	/* one at `address` that is not followed: int, xbegin, gs: ... */
	FOLLOW_EXITED,		/* the copy is gone */
	FOLLOW_FAILED,		/* something of ours: errno */
	FOLLOW_TIME,		/* it took longer than it may */
};

struct followed {
	enum follow_end end;
	long call;
	uint64_t address;
	/* What it took: stops of the copy, blocks translated, instructions single-stepped. */
	uint64_t stops, translated, stepped, calls, replayed, written_code_pages, shared_pages;
};

/* What the original's calls returned: replay.h.  NULL: nothing was recorded. */
struct recording;

struct follow_limits {
	uint64_t time_ns;	/* most real time; 0: any */
	/* Whole: the process is a program launched for this, all of its calls are real. */
	bool whole;
};

/*
 * Follow a taken copy until its window ends.  It is still stopped afterwards, or gone; copy_kill()
 * comes next.  Returns 0.
 */
int follow(struct translator *translator, struct copy *copy, struct recording *recording,
	   const struct follow_limits *limits, const struct watcher *watcher,
	   struct followed *followed);

#endif
