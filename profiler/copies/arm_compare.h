/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Have two arms done the same?  Then what they wrote is the same. */
#ifndef TLBCOST_COPIES_ARM_COMPARE_H
#define TLBCOST_COPIES_ARM_COMPARE_H

#include <stdint.h>

#include "arm.h"
#include "page_runs.h"

/* Pages that were compared, that have changed since the copy, and that differ in two arms. */
struct arm_difference {
	uint64_t compared, changed, different;
};

/*
 * Compare pages that the pilot, who did the work first, has written, and some of the others; of many,
 * a sample.  `before`: the copy that all were forked from, as it was.
 */
void arm_compare(const struct copy *before, const struct arm *pilot, const struct arm *one,
		 const struct arm *other, const struct page_runs *runs,
		 struct arm_difference *difference);

#endif
