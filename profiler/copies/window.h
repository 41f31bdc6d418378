/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A window: the references of one copy go to the TLB models, first to warm them, then counted; the
 * measured part also to the timing model.  All results are kept for each window.
 */
#ifndef TLBCOST_COPIES_WINDOW_H
#define TLBCOST_COPIES_WINDOW_H

#include <stdint.h>

#include "copy.h"
#include "follow.h"

struct window_options;	/* the modelled machine: window_options.h */
struct windows;		/* models and results of one worker */

/* What a window is about, known before it. */
struct window_start {
	uint32_t number;	/* of the copy, unique in one run of tlbcost-copies */
	uint64_t at_cpu_ns;	/* the program's CPU time when it was made */
};

/* NULL with errno. */
struct windows *windows_make(const struct window_options *options);
void windows_free(struct windows *windows);

/* The watcher that follow() takes, for all windows of this worker. */
const struct watcher *windows_watcher(struct windows *windows);

/* The taken copy is about to be followed; afterwards; the results are final with the latter. */
int windows_begin(struct windows *windows, const struct copy *copy,
		  const struct window_start *start);
int windows_end(struct windows *windows, const struct followed *followed);

/*
 * Write the tables of the results so far (doc/format.md) to the folder, as <kind>.<worker>.tsv.
 * Returns 0, or -1 with errno.
 */
int windows_write(struct windows *windows, const char *folder, uint32_t worker);

#endif
