/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Sort --size bytes of random numbers by their digits of --bits bits, lowest
 * first.  Each pass reads in order and writes to as many places as a digit has
 * values, each on a page of its own: fewer pages than the TLB holds, or more.
 */
#include "workload.h"

#define MOST_BITS 16u

/* Stable: numbers of the same digit stay in their order. */
static void pass(const uint64_t *from, uint64_t *to, uint64_t n, unsigned shift,
		 unsigned bits)
{
	static uint64_t next[1u << MOST_BITS];
	uint64_t mask = (UINT64_C(1) << bits) - 1, start = 0;

	memset(next, 0, sizeof(next));
	for (uint64_t i = 0; i < n; i++)
		next[from[i] >> shift & mask]++;
	for (uint64_t digit = 0; digit <= mask; digit++) {
		uint64_t count = next[digit];

		next[digit] = start;
		start += count;
	}
	for (uint64_t i = 0; i < n; i++)
		to[next[from[i] >> shift & mask]++] = from[i];
}

int main(int argc, char **argv)
{
	uint64_t size = 256u << 20, bits = 11, seed = 1;
	const struct workload_option options[] = {
		{ "bits", &bits, 1, "bits of a digit, at most 16" },
		{ "seed", &seed, 0, "of the numbers" },
		{ "size", &size, 8, "bytes of the numbers; as many again for the sorted ones" },
	};
	uint64_t *numbers, *sorted, *other;
	uint64_t n, state, sum = 0;

	(void)argc;
	WORKLOAD_PARSE(argv, "Sort numbers by their digits.", options);
	if (bits > MOST_BITS) {
		fputs("--bits must be at most 16\n", stderr);
		return 2;
	}
	n = size / sizeof(*numbers);
	numbers = workload_memory(n * sizeof(*numbers));
	sorted = workload_memory(n * sizeof(*sorted));
	state = workload_seed(seed);
	for (uint64_t i = 0; i < n; i++)
		numbers[i] = workload_random(&state);
	for (unsigned shift = 0; shift < 64; shift += (unsigned)bits) {
		pass(numbers, sorted, n, shift, (unsigned)bits);
		other = numbers;
		numbers = sorted;
		sorted = other;
	}
	for (uint64_t i = 0; i < n; i++) {
		if (i > 0 && numbers[i - 1] > numbers[i]) {
			fputs("the numbers are not sorted\n", stderr);
			return 1;
		}
		sum = sum * 31 + numbers[i];
	}
	free(numbers);
	free(sorted);
	return workload_finish(sum);
}
