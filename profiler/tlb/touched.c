/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "touched.h"

enum { NUMBER, FLAGS, BITMAP };		/* words of a record */
#define HAS_ANONYMOUS UINT64_C(1)
#define FIRST_CAPACITY 1024u		/* a power of two: 2 GiB of 2 MiB regions */

static uint64_t *record_at(const struct touched *touched, uint64_t *records,
			   size_t slot)
{
	return records + slot * touched->record_words;
}

/* The record of a region, or the free slot where it belongs. */
static uint64_t *find(const struct touched *touched, uint64_t *records,
		      size_t capacity, uint64_t region)
{
	/* Fibonacci hashing: neighbouring regions spread over the table. */
	size_t slot = (size_t)((region * UINT64_C(0x9e3779b97f4a7c15)) >> 32);

	for (;; slot++) {
		uint64_t *record = record_at(touched, records,
					     slot & (capacity - 1));

		if (record[NUMBER] == region + 1 || record[NUMBER] == 0)
			return record;
	}
}

static int grow(struct touched *touched)
{
	size_t capacity = touched->capacity ? 2 * touched->capacity :
					      FIRST_CAPACITY;
	size_t bytes = touched->record_words * sizeof(uint64_t);
	uint64_t *records = touched->allocate(capacity * bytes);

	if (!records)
		return -1;
	for (size_t slot = 0; slot < touched->capacity; slot++) {
		uint64_t *from = record_at(touched, touched->records, slot);
		uint64_t *to;

		if (!from[NUMBER])
			continue;
		to = find(touched, records, capacity, from[NUMBER] - 1);
		for (size_t word = 0; word < touched->record_words; word++)
			to[word] = from[word];
	}
	if (touched->records)
		touched->release(touched->records);
	touched->records = records;
	touched->capacity = capacity;
	touched->last = records;
	return 0;
}

int touched_init(struct touched *touched)
{
	size_t pages = (size_t)1 << (touched->huge_shift - touched->base_shift);

	touched->record_words = BITMAP + (pages + 63) / 64;
	touched->records = NULL;
	touched->capacity = 0;
	touched->used = 0;
	touched->anonymous_pages = 0;
	touched->anonymous_regions = 0;
	touched->other_pages = 0;
	touched->failed = false;
	return grow(touched);
}

void touched_reset(struct touched *touched)
{
	if (touched->records)
		touched->release(touched->records);
	touched->failed = touched_init(touched) != 0;
}

void touched_note(struct touched *touched, uint64_t address)
{
	uint64_t region = address >> touched->huge_shift;
	uint64_t page = (address >> touched->base_shift) &
			((UINT64_C(1) << (touched->huge_shift -
					  touched->base_shift)) - 1);
	uint64_t *record = touched->last, bit = UINT64_C(1) << (page % 64);

	if (touched->failed)
		return;
	if (record[NUMBER] != region + 1) {
		record = find(touched, touched->records, touched->capacity, region);
		if (!record[NUMBER]) {
			/* At most half full, so searches are short. */
			if (2 * touched->used >= touched->capacity) {
				if (grow(touched) != 0) {
					touched->failed = true;
					return;
				}
				record = find(touched, touched->records,
					      touched->capacity, region);
			}
			record[NUMBER] = region + 1;
			touched->used++;
		}
		touched->last = record;
	}
	if (record[BITMAP + page / 64] & bit)
		return;
	record[BITMAP + page / 64] |= bit;
	if (!touched->anonymous(address)) {
		touched->other_pages++;
		return;
	}
	touched->anonymous_pages++;
	if (!(record[FLAGS] & HAS_ANONYMOUS)) {
		record[FLAGS] |= HAS_ANONYMOUS;
		touched->anonymous_regions++;
	}
}
