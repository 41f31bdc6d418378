/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What was measured so far: kept in memory, so a killed calibrator leaves nothing. */
#ifndef TLBCOST_SAMPLES_H
#define TLBCOST_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include "table.h"

/* One row of the `samples` table of doc/format.md; words point to string literals. */
struct sample {
	const char *probe;
	const char *layout;	/* NULL: NA */
	const char *access;	/* NULL: NA */
	size_t page_size_bytes;	/* 0: NA, as the next two */
	size_t spacing_bytes;
	size_t lines;
	unsigned repetition;
	double ns;
	double packed_ns;	/* NAN: NA */
};

/* A header line about something that was not measured. */
struct sample_note {
	char key[48];
	char reason[200];
};

struct samples {
	struct sample *rows;
	size_t count, room;
	struct sample_note *notes;
	size_t note_count, note_room;
	int failed;	/* something was lost because memory ran out */
};

/* Returns 0, or -1 with errno ENOMEM; then, and if a note finds no memory, `failed` is set. */
int samples_add(struct samples *samples, struct sample sample);

/* Add a header line; with a key that is there already, do nothing. */
void samples_note(struct samples *samples, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Write the notes, the column names and the rows. */
void samples_write(const struct samples *samples, struct table *table);

/* Forget all samples and notes; nothing is written. */
void samples_free(struct samples *samples);

#endif
