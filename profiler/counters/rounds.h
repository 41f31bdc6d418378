/* SPDX-License-Identifier: GPL-2.0-or-later */
/* In which order did things happen, if each CPU has its own buffer? */
#ifndef TLBCOST_COUNTERS_ROUNDS_H
#define TLBCOST_COUNTERS_ROUNDS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Records that wait until all older ones must have arrived.  Buffers are read in rounds.  A
 * record gets its time and enters its buffer immediately; so one that is older than the newest
 * of the last round, but was not fetched then, is fetched in this one.  After each round, all
 * that is older than the newest of the round before can therefore be used, sorted.  (An
 * interrupt between the two can delay a record further: it is then used late, and not lost.)
 * Fields are private.
 */
struct rounds {
	unsigned char *bytes;
	size_t size, capacity;
	struct rounds_entry *entries;
	size_t count, room;
	uint64_t newest, limit;
};

/* Is called for each record.  `size` as record_size() gives it. */
typedef void rounds_use(const void *bytes, size_t size, void *context);

/*
 * Space for `size` bytes of records, to be filled from a buffer.
 * Returns NULL with errno ENOMEM.
 */
void *rounds_room(struct rounds *rounds, size_t size);

/*
 * Add the records in the last space, `size` bytes.  `addresses` as in parse.h.  Returns the
 * number of bytes at their end that are not records (0 from a sound kernel), which are
 * dropped; -1 with errno ENOMEM.
 */
long rounds_add(struct rounds *rounds, size_t size, int addresses);

/*
 * A round has ended: use the records that are old enough; `all`: all of them, it was the last.
 */
void rounds_flush(struct rounds *rounds, int all, rounds_use *use, void *context);

/* Drop the records that still wait: zeroed again. */
void rounds_free(struct rounds *rounds);

#endif
