/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which of many keys have been seen?  A Bloom filter: each key sets or tests
 * several bits, all over the memory.  None of them waits for another, but a
 * test ends at the first bit that is not set.
 */
#include "workload.h"

struct filter {
	uint64_t *words;
	uint64_t n;
	uint64_t hashes;
};

/* Kirsch and Mitzenmacher 2006: two hashes are enough to make all others. */
static uint64_t place(const struct filter *filter, uint64_t key, uint64_t i,
		      uint64_t *bit)
{
	uint64_t first = workload_seed(key);
	uint64_t second = (first ^ first >> 29) * 0xbf58476d1ce4e5b9u | 1;
	uint64_t hash = first + i * second;

	*bit = UINT64_C(1) << (hash & 63);
	return workload_below(hash, filter->n);
}

static void add(struct filter *filter, uint64_t key)
{
	uint64_t bit;

	for (uint64_t i = 0; i < filter->hashes; i++) {
		uint64_t word = place(filter, key, i, &bit);

		filter->words[word] |= bit;
	}
}

static int maybe_has(const struct filter *filter, uint64_t key)
{
	uint64_t bit;

	for (uint64_t i = 0; i < filter->hashes; i++) {
		uint64_t word = place(filter, key, i, &bit);

		if (!(filter->words[word] & bit))
			return 0;
	}
	return 1;
}

int main(int argc, char **argv)
{
	uint64_t size = 1u << 30, keys = 4000000, count = 8000000, hashes = 4, seed = 1;
	const struct workload_option options[] = {
		{ "count", &count, 0, "keys that are looked for, half of them known" },
		{ "hashes", &hashes, 1, "bits of each key" },
		{ "keys", &keys, 1, "keys that are known" },
		{ "seed", &seed, 0, "of the keys" },
		{ "size", &size, 8, "bytes of the filter" },
	};
	struct filter filter;
	uint64_t state, sum = 0;

	(void)argc;
	WORKLOAD_PARSE(argv, "Look for keys in a Bloom filter.", options);
	filter = (struct filter){ .n = size / sizeof(uint64_t), .hashes = hashes };
	workload_at_most_32_bits(filter.n);
	filter.words = workload_memory(size);
	memset(filter.words, 0, size);
	state = workload_seed(seed);
	/* Even keys are known, odd ones are not. */
	for (uint64_t i = 0; i < keys; i++)
		add(&filter, 2 * i);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t random = workload_random(&state);
		uint64_t key = 2 * workload_below(random, keys) + (random & 1);

		if (maybe_has(&filter, key))
			sum++;
		else if (!(key & 1)) {
			fputs("a known key was not found\n", stderr);
			return 1;
		}
	}
	free(filter.words);
	return workload_finish(sum);
}
