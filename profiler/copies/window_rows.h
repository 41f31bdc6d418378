/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What windows found, until it is written. */
#ifndef TLBCOST_COPIES_WINDOW_ROWS_H
#define TLBCOST_COPIES_WINDOW_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "follow.h"
#include "timed_cores.h"
#include "tlb/model.h"
#include "window_options.h"

struct window_row {
	uint32_t window;
	pid_t pid, tid;
	uint64_t at_cpu_ns;
	uint64_t warm_references, references;	/* before the measured part, and in it */
	uint64_t instructions;			/* in it */
	bool timed;
	uint64_t timed_references;		/* whose time is known */
	ticks time[TLB_SIZES];
	struct followed followed;
	struct tlb_counts counts[TLB_SIZES][TLB_SIDES];
};

/* Zeroed is empty. */
struct window_rows {
	struct window_row *all;
	size_t count, capacity;
};

/* Returns 0, or -1 with errno ENOMEM. */
int window_rows_add(struct window_rows *rows, const struct window_row *row);
void window_rows_free(struct window_rows *rows);

/*
 * Write tables of kinds copy_windows and copy_counts to folder/<kind>.<worker>.tsv.  Returns 0, or -1 with errno.
 */
int window_rows_write(const struct window_rows *rows, const struct window_options *options,
		      const char *folder, uint32_t worker);

#endif
