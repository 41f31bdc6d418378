/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Read memory at random that nobody has written: a simulator needs no filled memory, and
 * published times of such reads are without the filling.  The memory that is read is 0.
 *
 * By default words of --size bytes, each on its own.  With --chain 1 each line once, then all
 * again in the same order, as in published tables of latencies: each address depends on the
 * word that was read before; --size is a power of 2.  With --product 1 each word is multiplied
 * by one of a stream and added, and its place depends on a number of another stream, as in the
 * product of a sparse matrix and a vector.  With --update 1 each word is changed, too, and its
 * page is then the process's own.
 */
#include "workload.h"

#include <sys/mman.h>

#define LINE 64u

__extension__ typedef unsigned __int128 wide;

static void *unfilled(uint64_t bytes)
{
	void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (memory == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	return memory;
}

/* Knuth's MMIX generator: all numbers of any of its low bits, once each. */
static inline uint64_t next(uint64_t state)
{
	return state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
}

/* One of `count` places, by the high bits. */
static inline uint64_t place(uint64_t state, uint64_t count)
{
	return (uint64_t)((wide)state * count >> 64);
}

static uint64_t chain_of(const char *memory, uint64_t size, uint64_t count, uint64_t state)
{
	const uint64_t mask = size / LINE - 1;
	const unsigned half = mask > 1 ? (unsigned)(64 - __builtin_clzll(mask)) / 2 : 1;

	for (uint64_t i = 0; i < count; i++) {
		uint64_t line = state & mask;

		/* Low bits of the generator repeat soon; each step has an inverse. */
		line ^= line >> half;
		line = line * UINT64_C(0x9e3779b97f4a7c15) & mask;
		line ^= line >> half;
		state = next(state + *(const volatile uint64_t *)(memory + line * LINE));
	}
	return state;
}

static uint64_t product_of(const double *vector, uint64_t size, uint64_t count, uint64_t state)
{
	const uint64_t words = size / sizeof(*vector);
	const volatile double *factors = unfilled(count * sizeof(*factors));
	const volatile uint32_t *columns = unfilled(count * sizeof(*columns));
	double sum = 0;

	for (uint64_t i = 0; i < count; i++) {
		sum += factors[i] * vector[place(state, words) + columns[i]];
		state = next(state);
	}
	return state + (uint64_t)sum;
}

int main(int argc, char **argv)
{
	uint64_t size = UINT64_C(4) << 30, count = 1000000, seed = 1, chain = 0, product = 0;
	uint64_t update = 0;
	const struct workload_option options[] = {
		{ "chain", &chain, 0, "1: each read waits for the one before" },
		{ "count", &count, 1, "reads" },
		{ "product", &product, 0, "1: the reads of a sparse matrix's product" },
		{ "seed", &seed, 0, "of the random places" },
		{ "update", &update, 0, "1: each word is changed" },
		{ "size", &size, LINE, "bytes; with --chain 1 a power of 2" },
	};
	volatile uint64_t *words;
	uint64_t state, sum = 0;

	(void)argc;
	WORKLOAD_PARSE(argv, "Read at random memory that was not written.", options);
	if (chain && size & (size - 1)) {
		fprintf(stderr, "--size must be a power of 2\n");
		return 2;
	}
	words = unfilled(size);
	state = workload_seed(seed);
	if (chain)
		return workload_finish(chain_of((const char *)(uintptr_t)words, size, count, state));
	if (product)
		return workload_finish(product_of((const double *)(uintptr_t)words, size, count, state));
	for (uint64_t i = 0; update && i < count; i++) {
		words[place(state, size / sizeof(*words))] ^= state;
		state = next(state);
	}
	for (uint64_t i = 0; !update && i < count; i++) {
		sum += words[place(state, size / sizeof(*words))];
		state = next(state);
	}
	return workload_finish(sum + state);
}
