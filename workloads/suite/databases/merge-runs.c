/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Merge the sorted runs of a store of records into one, as a log-structured
 * database does: a heap knows which run has the least key; of equal keys the
 * youngest run's record counts, and what was deleted is left out.  Each run is
 * read in order, and so is the result written: as many streams as runs.
 */
#include "workload.h"

#define MOST_RUNS 4096u

struct record {
	uint64_t key;
	uint64_t value;		/* 0: deleted */
};

struct cursor {
	uint64_t key;		/* of the next record */
	uint32_t run;		/* a greater one is younger */
};

struct merge {
	struct record **next, **end;
	struct cursor *heap;
	uint64_t n;
};

static int before(const struct cursor *a, const struct cursor *b)
{
	return a->key < b->key || (a->key == b->key && a->run > b->run);
}

static void sift_down(struct merge *merge, uint64_t i)
{
	const struct cursor moved = merge->heap[i];
	uint64_t child;

	while ((child = 2 * i + 1) < merge->n) {
		if (child + 1 < merge->n && before(&merge->heap[child + 1], &merge->heap[child]))
			child++;
		if (!before(&merge->heap[child], &moved))
			break;
		merge->heap[i] = merge->heap[child];
		i = child;
	}
	merge->heap[i] = moved;
}

/* The next record of all; there must be one. */
static struct record take(struct merge *merge)
{
	const uint32_t run = merge->heap[0].run;
	struct record record = *merge->next[run]++;

	if (merge->next[run] == merge->end[run])
		merge->heap[0] = merge->heap[--merge->n];
	else
		merge->heap[0].key = merge->next[run]->key;
	if (merge->n > 0)
		sift_down(merge, 0);
	return record;
}

/* Keys ascend; a record of eight deletes. */
static void make_run(struct record *records, uint64_t n, uint64_t gap, uint64_t *state)
{
	uint64_t key = 0;

	for (uint64_t i = 0; i < n; i++) {
		uint64_t random = workload_random(state);

		key += 1 + workload_below(random, gap);
		records[i].key = key;
		records[i].value = random & 7 ? (random >> 3 & 0xffff) + 1 : 0;
	}
}

/* Returns how many records there are in the result. */
static uint64_t merge_all(struct merge *merge, struct record *result)
{
	uint64_t n = 0, last = 0;

	while (merge->n > 0) {
		struct record record = take(merge);

		if (record.key == last)
			continue;
		last = record.key;
		if (record.value)
			result[n++] = record;
	}
	return n;
}

int main(int argc, char **argv)
{
	uint64_t runs = 64, records = 400000, seed = 1, state, n, sum = 0;
	const struct workload_option options[] = {
		{ "records", &records, 1, "of each run" },
		{ "runs", &runs, 1, "that are merged" },
		{ "seed", &seed, 0, "of the records" },
	};
	struct merge merge = { 0 };
	struct record *result;

	(void)argc;
	WORKLOAD_PARSE(argv, "Merge sorted runs of records.", options);
	workload_at_most_32_bits(records);
	if (runs > MOST_RUNS) {
		fprintf(stderr, "--runs must be at most %u\n", MOST_RUNS);
		return 2;
	}
	state = workload_seed(seed);
	merge.next = workload_memory(runs * sizeof(*merge.next));
	merge.end = workload_memory(runs * sizeof(*merge.end));
	merge.heap = workload_memory(runs * sizeof(*merge.heap));
	for (uint64_t i = 0; i < runs; i++) {
		merge.next[i] = workload_memory(records * sizeof(**merge.next));
		merge.end[i] = merge.next[i] + records;
		make_run(merge.next[i], records, 2 * runs, &state);
		merge.heap[merge.n++] = (struct cursor){ merge.next[i]->key, (uint32_t)i };
	}
	for (uint64_t i = runs; i > 0; i--)
		sift_down(&merge, i - 1);
	result = workload_memory(runs * records * sizeof(*result));
	n = merge_all(&merge, result);
	for (uint64_t i = 0; i < n; i++)
		sum = (sum * 31 + result[i].key) * 31 + result[i].value;
	for (uint64_t i = 0; i < runs; i++)
		free(merge.end[i] - records);
	free(result);
	free(merge.heap);
	free(merge.end);
	free(merge.next);
	return workload_finish(sum);
}
