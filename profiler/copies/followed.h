/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The result of following a copy, and the limits. */
#ifndef TLBCOST_COPIES_FOLLOWED_H
#define TLBCOST_COPIES_FOLLOWED_H

#include <stdint.h>

enum follow_end {
	FOLLOW_ENOUGH,		/* the watcher wanted no more */
	FOLLOW_CALL,		/* a system call that a copy must not make: `call` */
	FOLLOW_FAULT,		/* a signal: `call` is its number, `address` where */
	FOLLOW_INSTRUCTION,	/* one at `address` that is not followed: int, xbegin, gs: ... */
	FOLLOW_EXITED,		/* the copy is gone */
	FOLLOW_FAILED,		/* an error of our own: errno */
	FOLLOW_TIME,		/* it took longer than it may */
};

struct followed {
	enum follow_end end;
	long call;
	uint64_t address;
	/* Counts: stops of the copy, blocks translated, instructions single-stepped, ... */
	uint64_t stops, translated, stepped, calls, replayed, written_code_pages, shared_pages;
};

struct follow_limits {
	uint64_t time_ns;	/* most real time; 0: any */
};

#endif
