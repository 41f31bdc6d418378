/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The time of each arm for each slice: the table of kind slices. */
#ifndef TLBCOST_COPIES_SLICES_H
#define TLBCOST_COPIES_SLICES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum arm_kind { ARM_BASE, ARM_REPEAT, ARM_HUGE, ARM_KINDS };

#define SLICE_UNKNOWN UINT64_MAX

struct slice_row {
	uint32_t window;	/* of the copies table */
	uint32_t slice, turn;	/* in the copy; order in which the arms warm up */
	enum arm_kind arm;
	const char *outcome;	/* "good", or a word that says why not */
	int64_t call;		/* that ended it; -1: none did */
	/* CPU time of the slice's two parts; SLICE_UNKNOWN: not obtained. */
	uint64_t warm_ns, time_ns;
	uint64_t faults, stops;	/* in the part that is measured */
	uint64_t anonymous_bytes, huge_bytes;	/* that the arm is on */
	uint64_t changed_pages, different_pages;	/* since the start; from the base arm */
};

/* Zeroed is empty. */
struct slice_rows {
	struct slice_row *all;
	size_t count, capacity;
};

/* A new row, all of it unknown.  Returns NULL with errno ENOMEM. */
struct slice_row *slice_rows_add(struct slice_rows *rows, uint32_t window);

/* Of rows from that one on: is there one that is good? */
bool slice_rows_are_good(const struct slice_rows *rows, size_t first);
void slice_rows_free(struct slice_rows *rows);

/* Write folder/slices.N.tsv.  Returns 0, or -1 with errno. */
int slice_rows_write(const struct slice_rows *rows, const char *folder, uint32_t worker);

#endif
