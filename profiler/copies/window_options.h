/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which machine is modelled, and how long is a window? */
#ifndef TLBCOST_COPIES_WINDOW_OPTIONS_H
#define TLBCOST_COPIES_WINDOW_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "numa/placement.h"
#include "timing/config.h"
#include "tlb/tlb_config.h"

struct window_options {
	struct tlb_config tlb;
	bool timed;			/* there is a core: the code is timed as well */
	struct timing_config core;
	const char *core_text;
	/* References: that warm the TLBs, at least and at most; the core; and that are measured. */
	uint64_t warm, most_warm, core_warm, measured;
	/*
	 * After less than this, and less than `warm`, a window's time is not modelled: TLBs that
	 * are nearly empty would take more of it than the program's ever do.
	 */
	uint64_t least_warm;
	uint32_t cycle_ps;		/* of the core's clock; 0: not known */
	/* Caches of a thread: what misses them is counted by page.  No l2_bytes: nothing is. */
	struct placement_config dram;
};

void window_options_init(struct window_options *options);

/*
 * Take an option of `tlbcost-copies`, e.g. "l1d" with "64:4,32:4": those of the Valgrind tool that
 * say what is modelled, and --warm, --most-warm, --least-warm, --core-warm, --measure, --cycle-ps,
 * --dram. Returns 1; 0 if it is none of these; -1 if the value is wrong.
 */
int window_options_take(struct window_options *options, const char *name, const char *value);

/* After the last one.  Returns NULL, or what is wrong with them together. */
const char *window_options_check(struct window_options *options);

#endif
