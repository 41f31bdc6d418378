/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Have two arms done the same?  Then what they wrote is the same. */
#ifndef TLBCOST_COPIES_ARM_COMPARE_H
#define TLBCOST_COPIES_ARM_COMPARE_H

#include <stdint.h>

#include "arm.h"
#include "page_runs.h"

/* Pages that were compared, that changed since the copy, and that differ between two arms. */
struct arm_difference {
	uint64_t compared, changed, different;
};

/*
 * Compare the pages that the pilot, which did the work first, has written, and some of the others;
 * a sample if there are many.  `before`: the copy that all were forked from, unchanged.
 */
void arm_compare(const struct copy *before, const struct arm *pilot, const struct arm *one,
		 const struct arm *other, const struct page_runs *runs,
		 struct arm_difference *difference);

#endif
