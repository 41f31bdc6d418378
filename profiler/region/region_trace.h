/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How often does a process come to a region, and what does it cost inside? */
#ifndef TLBCOST_REGION_TRACE_H
#define TLBCOST_REGION_TRACE_H

#include "breakpoints.h"
#include "reading.h"

/* It begins more often than this: it is not timed any more. */
#define MOST_TIMES 1000u

/*
 * A region of one process, through all programs that it executes.  The first two are set by the
 * caller, the rest is zeroed.  Only the places where it begins next, or ends next, have
 * breakpoints, so that no thread has to be stopped while another one steps over them.
 */
struct region {
	struct place starts[MOST_PLACES], ends[MOST_PLACES];
	unsigned start_count, end_count;
	pid_t pid;
	int inside;
	uint64_t begins, ended;
	int unknown;			/* a part of it could not be read */
	struct reading begun, last, sum;	/* last: when a thread ended inside */
	struct breakpoints entry, start, end;
};

/* For child.h: trace the process before it executes the program. */
int region_attach(pid_t pid, void *region);

/* Act on the stops of its threads.  Returns 0, or -1 with errno. */
int region_stops(void *region);

/* The program has ended: so does the region, if it has no end of its own. */
void region_finish(struct region *region);

#endif
