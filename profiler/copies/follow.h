/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What does a copy execute, and which memory does it access?  The copy runs translated code; a
 * watcher sees each block that was executed, in order, with the addresses of its references.
 */
#ifndef TLBCOST_COPIES_FOLLOW_H
#define TLBCOST_COPIES_FOLLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "copy.h"
#include "watcher.h"

struct translator;	/* the code cache, kept from copy to copy of one program: translator.h */

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
