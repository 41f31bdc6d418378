/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The state of a copy that is measured, for arms.c and the two ways in which arms do their work. */
#ifndef TLBCOST_COPIES_MEASURING_H
#define TLBCOST_COPIES_MEASURING_H

#include "arm.h"
#include "arms_options.h"
#include "page_runs.h"
#include "replay.h"
#include "slices.h"

/* One copy that is measured. */
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
	/* Does the work before the others; is not timed. */
	struct arm pilot;
	struct arm arms[ARM_KINDS];
	const char *why;		/* there are no (more) slices */
	int64_t call;			/* that is why */
};

/* No more slices, for this reason (the first one counts).  Returns -1. */
int measuring_stop(struct measuring *measuring, const char *why);

/* An arm forked from the copy.  Returns 0 or -1, as below. */
int measuring_fork(struct measuring *measuring, struct arm *arm);

/* Note the pages of this process, which the arms need.  Returns 0; or -1 after measuring_stop(). */
int measuring_note_pages(struct measuring *measuring, pid_t pid);

/*
 * Give it frames of its own for the newly noted pages; with options->keeps_frames, on base pages
 * only for those that the pilot has written.  Returns 0 or -1, as above.
 */
int measuring_prepare(struct measuring *measuring, enum arm_kind kind);

/* Note what the row's arm has on huge pages; nothing, where that cannot be read. */
void measuring_note_backing(const struct measuring *measuring, struct slice_row *row);

/* The arms in random order. */
void measuring_shuffle(struct measuring *measuring, enum arm_kind order[ARM_KINDS]);

/* The word for it in the table. */
const char *measuring_word(enum arm_end end);

/* Slices between check points, until there are enough or something ends them. */
void turns_run(struct measuring *measuring);

/* One slice, of which all calls are answered as they were recorded. */
void answered_run(struct measuring *measuring);

#endif
