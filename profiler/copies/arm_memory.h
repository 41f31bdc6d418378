/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which pages is an arm's memory on?  Frames of its own, of one size or of the other. */
#ifndef TLBCOST_COPIES_ARM_MEMORY_H
#define TLBCOST_COPIES_ARM_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

#include "arm.h"
#include "page_runs.h"

/* What an arm's memory is on, from smaps_rollup. */
struct arm_backing {
	uint64_t anonymous_bytes, huge_bytes;
};
int arm_backing_read(struct arm_backing *backing, pid_t pid);

/*
 * Frames of its own for these pages: huge ones where a whole huge page fits, else base pages.  By
 * advice; on kernels that do not know it, by memory that is filled anew.
 * Returns 0, or -1 with errno.
 */
int arm_memory_prepare(struct arm *arm, const struct page_runs *runs, bool huge,
		       uint64_t huge_page_bytes);

#endif
