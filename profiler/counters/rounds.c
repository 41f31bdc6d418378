/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "rounds.h"

#include <stdlib.h>
#include <string.h>

#include "parse.h"

struct rounds_entry {
	uint64_t time_ns;
	size_t at, size;	/* in bytes */
};

void *rounds_room(struct rounds *rounds, size_t size)
{
	if (rounds->capacity - rounds->size < size) {
		size_t capacity = 2 * (rounds->size + size);
		unsigned char *bytes = realloc(rounds->bytes, capacity);

		if (!bytes)
			return NULL;
		rounds->bytes = bytes;
		rounds->capacity = capacity;
	}
	return rounds->bytes + rounds->size;
}

static int note(struct rounds *rounds, uint64_t time_ns, size_t size)
{
	if (rounds->count == rounds->room) {
		size_t room = rounds->room ? 2 * rounds->room : 1024;
		struct rounds_entry *entries =
			realloc(rounds->entries, room * sizeof(*entries));

		if (!entries)
			return -1;
		rounds->entries = entries;
		rounds->room = room;
	}
	rounds->entries[rounds->count++] =
		(struct rounds_entry){ time_ns, rounds->size, size };
	rounds->size += size;
	if (time_ns > rounds->newest)
		rounds->newest = time_ns;
	return 0;
}

long rounds_add(struct rounds *rounds, size_t size, int addresses)
{
	struct record record;

	while (size > 0) {
		const unsigned char *bytes = rounds->bytes + rounds->size;
		size_t length = record_size(bytes, size);

		/* After a record with a wrong length, no later one can be found. */
		if (length == 0 || record_parse(bytes, length, addresses, &record) < 0)
			break;
		if (note(rounds, record.time_ns, length) < 0)
			return -1;
		size -= length;
	}
	return (long)size;
}

/* By time; what one CPU wrote at the same time keeps its order. */
static int compare(const void *left, const void *right)
{
	const struct rounds_entry *a = left, *b = right;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	return a->at < b->at ? -1 : a->at > b->at;
}

static int by_place(const void *left, const void *right)
{
	const struct rounds_entry *a = left, *b = right;

	return a->at < b->at ? -1 : a->at > b->at;
}

/* Move the rest to the front, keeping its order. */
static void close_up(struct rounds *rounds, size_t used)
{
	struct rounds_entry *entries = rounds->entries;
	size_t count = rounds->count - used;

	memmove(entries, entries + used, count * sizeof(*entries));
	if (count > 1)
		qsort(entries, count, sizeof(*entries), by_place);
	rounds->size = 0;
	for (size_t i = 0; i < count; i++) {
		memmove(rounds->bytes + rounds->size, rounds->bytes + entries[i].at,
			entries[i].size);
		entries[i].at = rounds->size;
		rounds->size += entries[i].size;
	}
	rounds->count = count;
}

void rounds_flush(struct rounds *rounds, int all, rounds_use *use, void *context)
{
	size_t used = 0;

	if (rounds->count > 1)
		qsort(rounds->entries, rounds->count, sizeof(*rounds->entries), compare);
	while (used < rounds->count &&
	       (all || rounds->entries[used].time_ns <= rounds->limit)) {
		const struct rounds_entry *entry = &rounds->entries[used++];

		use(rounds->bytes + entry->at, entry->size, context);
	}
	rounds->limit = rounds->newest;
	if (used)
		close_up(rounds, used);
}

void rounds_free(struct rounds *rounds)
{
	free(rounds->bytes);
	free(rounds->entries);
	memset(rounds, 0, sizeof(*rounds));
}
