/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How much work do arms do? */
#ifndef TLBCOST_COPIES_ARMS_OPTIONS_H
#define TLBCOST_COPIES_ARMS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#define ARMS_MOST_SLICES 16u
#define ARMS_FEWEST_SLICES 2u
/* With fewer copies there is no answer (measured/arms.py). */
#define ARMS_FEWEST_COPIES 4u
/* A thread that makes fewer while recorded works long enough between two. */
#define ARMS_FEWEST_CALLS 256u

struct arms_options {
	/* CPU time of a slice: that warms the caches, and that is measured. */
	uint64_t warm_ns, measured_ns;
	uint32_t slices;
	uint64_t huge_page_bytes;
	bool text, shared;	/* make file-backed code and shared memory private, to measure them */
	bool keeps_frames;	/* arms on base pages keep the copy's frames where they only read */
	uint64_t enough_ns;	/* if one more would end later, the fewest suffice; 0: do all */
	uint64_t time_ns;	/* after this much real time for a copy no slice is begun */
};

#endif
