/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "order.h"

#include <stdlib.h>
#include <string.h>

#include "parse.h"

struct order_entry {
	uint64_t time_ns;
	size_t at, size;	/* in bytes */
};

void *order_room(struct order *order, size_t size)
{
	if (order->capacity - order->size < size) {
		size_t capacity = 2 * (order->size + size);
		unsigned char *bytes = realloc(order->bytes, capacity);

		if (!bytes)
			return NULL;
		order->bytes = bytes;
		order->capacity = capacity;
	}
	return order->bytes + order->size;
}

static int note(struct order *order, uint64_t time_ns, size_t size)
{
	if (order->count == order->room) {
		size_t room = order->room ? 2 * order->room : 1024;
		struct order_entry *entries =
			realloc(order->entries, room * sizeof(*entries));

		if (!entries)
			return -1;
		order->entries = entries;
		order->room = room;
	}
	order->entries[order->count++] =
		(struct order_entry){ time_ns, order->size, size };
	order->size += size;
	if (time_ns > order->newest)
		order->newest = time_ns;
	return 0;
}

long order_add(struct order *order, size_t size, int addresses)
{
	struct record record;

	while (size > 0) {
		const unsigned char *bytes = order->bytes + order->size;
		size_t length = record_size(bytes, size);

		/* Where one record ends wrong, no later one can be found. */
		if (length == 0 || record_parse(bytes, length, addresses, &record) < 0)
			break;
		if (note(order, record.time_ns, length) < 0)
			return -1;
		size -= length;
	}
	return (long)size;
}

/* By time; what one CPU wrote at the same time stays as it is. */
static int compare(const void *left, const void *right)
{
	const struct order_entry *a = left, *b = right;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	return a->at < b->at ? -1 : a->at > b->at;
}

static int by_place(const void *left, const void *right)
{
	const struct order_entry *a = left, *b = right;

	return a->at < b->at ? -1 : a->at > b->at;
}

/* Move what is left to the front, in the order that it lies in. */
static void close_up(struct order *order, size_t used)
{
	struct order_entry *entries = order->entries;
	size_t count = order->count - used;

	memmove(entries, entries + used, count * sizeof(*entries));
	if (count > 1)
		qsort(entries, count, sizeof(*entries), by_place);
	order->size = 0;
	for (size_t i = 0; i < count; i++) {
		memmove(order->bytes + order->size, order->bytes + entries[i].at,
			entries[i].size);
		entries[i].at = order->size;
		order->size += entries[i].size;
	}
	order->count = count;
}

void order_flush(struct order *order, int all, order_use *use, void *context)
{
	size_t used = 0;

	if (order->count > 1)
		qsort(order->entries, order->count, sizeof(*order->entries), compare);
	while (used < order->count &&
	       (all || order->entries[used].time_ns <= order->limit)) {
		const struct order_entry *entry = &order->entries[used++];

		use(order->bytes + entry->at, entry->size, context);
	}
	order->limit = order->newest;
	if (used)
		close_up(order, used);
}

void order_free(struct order *order)
{
	free(order->bytes);
	free(order->entries);
	memset(order, 0, sizeof(*order));
}
