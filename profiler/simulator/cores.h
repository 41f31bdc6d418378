/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The timing model of a thread: a core for each page size, and one for each view. */
#ifndef TLBSIM_CORES_H
#define TLBSIM_CORES_H

#include "options.h"

#include "timing/wrong_paths.h"

/* Cores: those of the two page sizes, then those of the views. */
#define MOST_CORES (TLB_SIZES + TLB_MOST_VIEWS)

struct timing {
	struct core *cores;
	struct branches branches;
	struct wrong_paths paths;
	struct cache_line *lines;	/* of the cores' caches */
};

static inline UInt core_count(void)
{
	return TLB_SIZES + options.view_count;
}

/* What is known of a core, and log2 of the pages that its machine's memory is on. */
const struct timing_config *config_of(UInt core, UInt *shift);

/* A model in which nothing has run; the last level is shared by all threads'. */
struct timing *timing_make(void);
/* NULL: there is none. */
void timing_drop(struct timing *timing);

#endif
