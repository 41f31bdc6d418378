/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Has a window's warm-up been long enough for its TLBs?  It is decided after each of its steps. */
#ifndef TLBCOST_COPIES_WARM_UP_H
#define TLBCOST_COPIES_WARM_UP_H

#include <stdbool.h>
#include <stdint.h>

#include "tlb/model.h"
#include "window_options.h"

/* All amounts are in references. */
struct warm_up {
	const struct window_options *options;
	uint64_t step_ends;
	bool may_be_last;		/* this step */
	/* Until the step began. */
	uint64_t unknown[TLB_SIZES], misses[TLB_SIZES];
};

void warm_up_begin(struct warm_up *warm_up, const struct window_options *options);

/* There is no more than the current step. */
void warm_up_ends(struct warm_up *warm_up);

/* Is it time for the cores' near caches to be filled, after so much of the warm-up? */
bool warm_up_fills_caches(const struct warm_up *warm_up, uint64_t so_far);

/* A step has ended; the model's counts are flushed here.  Returns whether the TLBs are warm. */
bool warm_up_step(struct warm_up *warm_up, struct tlb_model *model, uint64_t so_far);

#endif
