/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which look-ups in the TLB models does an executed block make? */
#ifndef TLBCOST_COPIES_TLB_FEED_H
#define TLBCOST_COPIES_TLB_FEED_H

#include <stdbool.h>
#include <stdint.h>

#include "code_block.h"
#include "tlb/model.h"
#include "window_options.h"

struct tlb_feed {
	struct tlb_model model;
	/* The number of the next reference, fetches of pages included: the models' time. */
	uint64_t clock;
	/* Private: */
	struct tlb_filter data_filter, code_filter;
	void *model_memory;
	uint64_t code_page;		/* of the last instruction */
	bool jumped;			/* indirectly */
};

/* Zeroed before.  Returns 0, or -1 with errno ENOMEM. */
int tlb_feed_init(struct tlb_feed *feed, const struct window_options *options);
void tlb_feed_free(struct tlb_feed *feed);

/* Empty TLBs, zero counts, no callbacks; the clock is 0. */
void tlb_feed_reset(struct tlb_feed *feed, const struct window_options *options);

/* The block's references, in order; addresses as for a watcher (follow.h). */
void tlb_feed_block(struct tlb_feed *feed, const struct code_block *block,
		    const uint64_t *addresses);

#endif
