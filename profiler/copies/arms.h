/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long does the same work take on base pages and on huge pages?  Arms of one copy do it
 * natively, slice by slice, in turns.
 */
#ifndef TLBCOST_COPIES_ARMS_H
#define TLBCOST_COPIES_ARMS_H

#include <stdint.h>

#include "arms_options.h"
#include "copy.h"
#include "slices.h"

/* What the original's calls returned: replay.h. */
struct recording;

/*
 * Measure a copy that is stopped and stays so; a row for each slice and arm is added, or one that
 * says why there is none.  `recording`: of its calls, for one slice with them; NULL: slices end
 * before the first.  Returns 0, or -1 with errno ENOMEM.
 */
int arms_measure(struct slice_rows *rows, const struct arms_options *options, struct copy *copy,
		 const struct recording *recording, uint32_t window, uint64_t *random);

#endif
