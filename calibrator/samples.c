/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "samples.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int samples_add(struct samples *samples, struct sample sample)
{
	size_t room = samples->room ? samples->room * 2 : 1024;
	struct sample *rows;

	if (samples->count == samples->room) {
		rows = realloc(samples->rows, room * sizeof(*rows));
		if (!rows)
			return -1;
		samples->rows = rows;
		samples->room = room;
	}
	samples->rows[samples->count++] = sample;
	return 0;
}

void samples_note(struct samples *samples, const char *key, const char *format, ...)
{
	struct sample_note *note = &samples->notes[samples->note_count];
	va_list args;

	if (samples->note_count == sizeof(samples->notes) / sizeof(samples->notes[0]))
		return;
	for (size_t i = 0; i < samples->note_count; i++)
		if (strcmp(samples->notes[i].key, key) == 0)
			return;
	va_start(args, format);
	snprintf(note->key, sizeof(note->key), "%s", key);
	vsnprintf(note->reason, sizeof(note->reason), format, args);
	va_end(args);
	samples->note_count++;
}

static void word_or_na(struct table *table, const char *word)
{
	if (word)
		table_word(table, word);
	else
		table_na(table);
}

void samples_write(const struct samples *samples, struct table *table)
{
	const struct sample *row;

	for (size_t i = 0; i < samples->note_count; i++)
		table_key(table, samples->notes[i].key, "%s", samples->notes[i].reason);
	table_columns(table, "probe page_size_bytes pages layout access repetition ns");
	for (row = samples->rows; row < samples->rows + samples->count; row++) {
		table_word(table, row->probe);
		table_count(table, row->page_bytes);
		table_count(table, row->pages);
		word_or_na(table, row->layout);
		word_or_na(table, row->access);
		table_count(table, row->repetition);
		table_number(table, row->ns);
	}
}

void samples_free(struct samples *samples)
{
	free(samples->rows);
	memset(samples, 0, sizeof(*samples));
}
