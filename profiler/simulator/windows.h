/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Windows: parts of the run in which the timing model sees every instruction,
 * one in each period of references, at a random place in it.  A window begins
 * with references that only warm the model's caches; the rest are measured.
 */
#ifndef TLBSIM_WINDOWS_H
#define TLBSIM_WINDOWS_H

#include "cores.h"
#include "engine/schedule.h"

/* The result of one window. */
struct window {
	ThreadId thread;		/* that ran when it began */
	ULong period;			/* number of the period that it stands for */
	ULong start, references;
	ticks time[MOST_CORES];
};

struct windows {
	struct schedule schedule;	/* when they open */
	struct window *rows;		/* as many as options.windows.most */
	UInt count;
	enum { WINDOW_CLOSED, WINDOW_WARMING, WINDOW_MEASURING } phase;
	ULong phase_ends;		/* time */
	ULong phase_operations;		/* that it may still execute */
	struct window open;		/* the one that is */
	struct timing *seen;		/* by the model in it; NULL: none yet */
	ticks seen_since[MOST_CORES];
	/* The last few windows: each core's time, and for how many references. */
	ticks recent[MOST_CORES];
	ULong recent_references;
	/* The program's time on each core when the last window began, and when that was. */
	ticks program_time[MOST_CORES];
	ULong program_clock;
};

extern struct windows windows;

/* Time at which the next window opens; past while one is open. */
extern ULong tlbsim_next_window;

/* A new process image: forget all results. */
void windows_start(void);
/* A miss while no window is open: the model's `missed`. */
void windows_missed(enum tlb_size size, uint64_t address, enum tlb_side side,
		    bool walk);
/* Another thread is about to run: an open window continues with it. */
void windows_switch(void);

/* Called at a block's start while a window is open: the thread's last one is over. */
void tlbsim_window_block(void *guest_state, ULong start);

#endif
