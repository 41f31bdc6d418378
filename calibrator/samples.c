/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "samples.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Grow for one more.  Returns 0, or -1 with errno ENOMEM. */
static int grow(void **items, size_t size, size_t count, size_t *room)
{
	size_t wanted = *room ? *room * 2 : 64;
	void *grown;

	if (count < *room)
		return 0;
	grown = realloc(*items, wanted * size);
	if (!grown)
		return -1;
	*items = grown;
	*room = wanted;
	return 0;
}

int samples_add(struct samples *samples, struct sample sample)
{
	void *rows = samples->rows;

	if (grow(&rows, sizeof(sample), samples->count, &samples->room) != 0) {
		samples->failed = 1;
		return -1;
	}
	samples->rows = rows;
	samples->rows[samples->count++] = sample;
	return 0;
}

void samples_note(struct samples *samples, const char *key, const char *format, ...)
{
	struct sample_note *note;
	void *notes = samples->notes;
	va_list args;

	for (size_t i = 0; i < samples->note_count; i++)
		if (strcmp(samples->notes[i].key, key) == 0)
			return;
	if (grow(&notes, sizeof(*note), samples->note_count, &samples->note_room) != 0) {
		samples->failed = 1;
		return;
	}
	samples->notes = notes;
	note = &samples->notes[samples->note_count++];
	va_start(args, format);
	snprintf(note->key, sizeof(note->key), "%s", key);
	vsnprintf(note->reason, sizeof(note->reason), format, args);
	va_end(args);
}

static void word_or_na(struct table *table, const char *word)
{
	table_word(table, word ? word : "NA");
}

static void count_or_na(struct table *table, size_t count)
{
	if (count)
		table_count(table, count);
	else
		table_na(table);
}

void samples_write(const struct samples *samples, struct table *table)
{
	const struct sample *row;

	for (size_t i = 0; i < samples->note_count; i++)
		table_key(table, samples->notes[i].key, "%s", samples->notes[i].reason);
	table_columns(table, "probe page_size_bytes layout spacing_bytes access lines repetition "
			     "ns packed_ns");
	for (row = samples->rows; row < samples->rows + samples->count; row++) {
		table_word(table, row->probe);
		count_or_na(table, row->page_size_bytes);
		word_or_na(table, row->layout);
		count_or_na(table, row->spacing_bytes);
		word_or_na(table, row->access);
		count_or_na(table, row->lines);
		table_count(table, row->repetition);
		table_number(table, row->ns);
		table_number(table, row->packed_ns);
	}
}

void samples_free(struct samples *samples)
{
	free(samples->rows);
	free(samples->notes);
	memset(samples, 0, sizeof(*samples));
}
