/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The models of a worker, and how far the current window has come.  Private to window.c's parts. */
#ifndef TLBCOST_COPIES_WINDOW_STATE_H
#define TLBCOST_COPIES_WINDOW_STATE_H

#include "attribution.h"
#include "fresh_pages.h"
#include "kept_blocks.h"
#include "timed_cores.h"
#include "tlb_feed.h"
#include "warm_up.h"
#include "window_dram.h"
#include "watcher.h"
#include "window_options.h"
#include "window_rows.h"

struct windows {
	const struct window_options *options;
	struct watcher watcher;
	struct tlb_feed feed;
	struct timed_cores timed;	/* if options->timed */
	struct fresh_pages fresh;	/* of a copy that is timed */
	struct attribution *attribution;
	struct window_dram *dram;	/* NULL: not asked for */
	struct window_row row;		/* of the current window */
	bool counting;			/* its measured part has begun */
	bool modelling;			/* the cores execute, too */
	bool warm;			/* the TLBs are: what is kept is the rest of the window */
	uint64_t instructions;		/* that the TLB models have seen */
	struct warm_up warm_up;
	uint64_t measured_from;		/* reference */
	struct tlb_counts before[TLB_SIZES][TLB_SIDES];
	struct kept_blocks kept;
	/* Of a timed part: when it began, of each core, and with which reference. */
	ticks since[TLB_SIZES];
	uint64_t timed_from;
	bool failed;			/* memory ran out */
	struct window_rows rows;
};

/* Code with few references would make windows long: this many instructions count as one. */
#define WINDOW_MOST_INSTRUCTIONS 16u

/* These references and instructions, as references. */
static inline uint64_t window_amount(uint64_t references, uint64_t instructions)
{
	const uint64_t least = instructions / WINDOW_MOST_INSTRUCTIONS;

	return references > least ? references : least;
}

/* What the models have seen of the window. */
static inline uint64_t window_warmed(const struct windows *windows)
{
	return window_amount(windows->feed.clock, windows->instructions);
}

/* What the cores see of a window: their warm-up, and what is timed. */
static inline uint64_t window_timed_part(const struct windows *windows)
{
	return windows->options->core_warm + windows->options->measured;
}

#endif
