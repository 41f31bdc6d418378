/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Read random words of --size bytes that nobody has written: a simulator needs no filled memory,
 * and published times of such reads are without the filling.  With --chain 1 each address depends
 * on the word that was read before, which is 0; else reads overlap.  --size is a power of 2.
 */
#include "workload.h"

#include <sys/mman.h>

int main(int argc, char **argv)
{
	uint64_t size = UINT64_C(4) << 30, count = 1000000, seed = 1, chain = 0;
	const struct workload_option options[] = {
		{ "chain", &chain, 0, "1: each read waits for the one before" },
		{ "count", &count, 1, "reads" },
		{ "seed", &seed, 0, "of the random places" },
		{ "size", &size, 64, "bytes, a power of 2" },
	};
	const volatile uint64_t *words;
	uint64_t state, sum = 0, mask;
	void *memory;

	(void)argc;
	WORKLOAD_PARSE(argv, "Read random words of memory that was not written.", options);
	if (size & (size - 1)) {
		fprintf(stderr, "--size must be a power of 2\n");
		return 2;
	}
	memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (memory == MAP_FAILED) {
		perror("mmap");
		return 1;
	}
	words = memory;
	mask = size / sizeof(*words) - 1;
	state = workload_seed(seed);
	for (uint64_t i = 0; i < count; i++) {
		const uint64_t word = words[state >> 24 & mask];

		/* Knuth's MMIX generator: two operations in the chain. */
		state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		if (chain)
			state += word;
		else
			sum += word;
	}
	munmap(memory, size);
	return workload_finish(sum + state);
}
