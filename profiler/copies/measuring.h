/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What arms.c and the two ways in which arms do their work know of a copy that is measured. */
#ifndef TLBCOST_COPIES_MEASURING_H
#define TLBCOST_COPIES_MEASURING_H

#include "arm.h"
#include "arms_options.h"
#include "page_runs.h"
#include "replay.h"
#include "slices.h"

/* What is measured of one copy. */
struct measuring {
	const struct arms_options *options;
	struct slice_rows *rows;
	struct copy *copy;
	const struct recording *recording;	/* of its calls; NULL: there is none */
	uint32_t window;
	uint64_t *random;
	uint64_t enough_ns, deadline_ns;	/* real time: see options; 0: there is none */
	/* That the work needs; of those, what arms were not prepared for yet. */
	struct page_runs pages, new_pages;
	/* Of these, those that the pilot has written: if options->keeps_frames. */
	struct page_runs written;
	/* It does the work before the others; it is not timed. */
	struct arm pilot;
	struct arm arms[ARM_KINDS];
	const char *why;		/* there are no (more) slices */
	int64_t call;			/* that is why */
};

/* There are no more slices, for this reason, if there was none before.  Returns -1. */
int measuring_stop(struct measuring *measuring, const char *why);

/* An arm forked from the copy, with no memory that is shared.  Returns 0 or -1, as below. */
int measuring_fork(struct measuring *measuring, struct arm *arm);

/* What this process has; the arms are to have that.  Returns 0; or -1: measuring_stop() was called. */
int measuring_note_pages(struct measuring *measuring, pid_t pid);

/*
 * Frames of its own for what was noted last, but not before; if options->keeps_frames, on base pages
 * only for what the pilot has written.  Returns 0 or -1, as above.
 */
int measuring_prepare(struct measuring *measuring, enum arm_kind kind);

/* The arms in an order that is drawn. */
void measuring_shuffle(struct measuring *measuring, enum arm_kind order[ARM_KINDS]);

/* The word for it in the table. */
const char *measuring_word(enum arm_end end);

/* Slices between check points, until there are enough or something ends them. */
void turns_run(struct measuring *measuring);

/* One slice, of which all calls are answered as they were recorded. */
void answered_run(struct measuring *measuring);

#endif
