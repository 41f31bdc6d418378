/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Search random keys in a sorted array of --size bytes.  Each step of a search
 * waits for the one before; the first steps share few pages, the last are far
 * from everything else.
 */
#include "workload.h"

/* How many elements are smaller than the key. */
static uint64_t rank(const uint64_t *array, uint64_t n, uint64_t key)
{
	const uint64_t *base = array;

	while (n > 1) {
		uint64_t half = n / 2;

		base += base[half - 1] < key ? half : 0;
		n -= half;
	}
	return (uint64_t)(base - array) + (*base < key);
}

int main(int argc, char **argv)
{
	uint64_t size = 512u << 20, count = 3000000, seed = 1;
	const struct workload_option options[] = {
		{ "count", &count, 0, "searches" },
		{ "seed", &seed, 0, "of the random keys" },
		{ "size", &size, 8, "bytes of the array" },
	};
	uint64_t n, state, sum = 0;
	uint64_t *array;

	(void)argc;
	WORKLOAD_PARSE(argv, "Search a sorted array.", options);
	n = size / sizeof(*array);
	workload_at_most_32_bits(n);
	array = workload_memory(n * sizeof(*array));
	for (uint64_t i = 0; i < n; i++)
		array[i] = 2 * i;
	state = workload_seed(seed);
	for (uint64_t i = 0; i < count; i++)
		sum += rank(array, n, 2 * workload_below(workload_random(&state), n));
	free(array);
	return workload_finish(sum);
}
