/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sort records of 64 bytes by a text in them: pointers to them are merged,
 * short runs to longer ones.  The pointers are read and written in order; the
 * further the sorting gets, the less order is in where they lead to.
 */
#include "workload.h"

#define KEY_BYTES 16u

struct record {
	char key[KEY_BYTES];
	uint64_t number;
	char rest[WORKLOAD_LINE_BYTES - KEY_BYTES - sizeof(uint64_t)];
};

static int before(const struct record *a, const struct record *b)
{
	return memcmp(a->key, b->key, KEY_BYTES) <= 0;
}

/* Merge the runs [low, middle) and [middle, high); equal keys keep their order. */
static void merge(struct record *const *from, struct record **to, uint64_t low,
		  uint64_t middle, uint64_t high)
{
	uint64_t left = low, right = middle;

	for (uint64_t i = low; i < high; i++)
		if (left < middle && (right == high || before(from[left], from[right])))
			to[i] = from[left++];
		else
			to[i] = from[right++];
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* The sorted pointers are in one of both arrays: which. */
static struct record **sort(struct record **from, struct record **to, uint64_t n)
{
	for (uint64_t run = 1; run < n; run *= 2) {
		struct record **other = from;

		for (uint64_t low = 0; low < n; low += 2 * run)
			merge(from, to, low, least(low + run, n), least(low + 2 * run, n));
		from = to;
		to = other;
	}
	return from;
}

static void make_records(struct record *records, uint64_t n, uint64_t seed)
{
	uint64_t state = workload_seed(seed);

	for (uint64_t i = 0; i < n; i++) {
		for (unsigned k = 0; k < KEY_BYTES; k++)
			records[i].key[k] = (char)('a' + workload_below(workload_random(&state),
									26));
		records[i].number = i;
	}
}

int main(int argc, char **argv)
{
	uint64_t n = 2000000, seed = 1, sum = 0;
	const struct workload_option options[] = {
		{ "records", &n, 1, "records" },
		{ "seed", &seed, 0, "of their keys" },
	};
	struct record *records;
	struct record **pointers, **others, **sorted;

	(void)argc;
	WORKLOAD_PARSE(argv, "Sort pointers to records.", options);
	records = workload_memory(n * sizeof(*records));
	pointers = workload_memory(n * sizeof(struct record *));
	others = workload_memory(n * sizeof(struct record *));
	make_records(records, n, seed);
	for (uint64_t i = 0; i < n; i++)
		pointers[i] = &records[i];
	sorted = sort(pointers, others, n);
	for (uint64_t i = 0; i < n; i++) {
		if (i > 0 && !before(sorted[i - 1], sorted[i])) {
			fputs("the records are not sorted\n", stderr);
			return 1;
		}
		sum = sum * 31 + sorted[i]->number;
	}
	free(pointers);
	free(others);
	free(records);
	return workload_finish(sum);
}
