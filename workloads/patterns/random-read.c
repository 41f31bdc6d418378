/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Read random words of a table of --size bytes.  No read waits for the one
 * before, so the processor overlaps their page walks; with --chain 1 each does.
 */
#include "workload.h"

static uint64_t chain_of(const uint64_t *table, uint64_t n, uint64_t count, uint64_t state)
{
	for (uint64_t i = 0; i < count; i++)
		state += table[workload_below(workload_random(&state), n)];
	return state;
}

int main(int argc, char **argv)
{
	uint64_t size = 1u << 30, count = 60000000, seed = 1, chain = 0;
	const struct workload_option options[] = {
		{ "chain", &chain, 0, "1: each read waits for the one before" },
		{ "count", &count, 0, "reads" },
		{ "seed", &seed, 0, "of the random places" },
		{ "size", &size, 8, "bytes of the table" },
	};
	uint64_t n, state, sum = 0;
	uint64_t *table;

	(void)argc;
	WORKLOAD_PARSE(argv, "Read random words of a table.", options);
	n = size / sizeof(*table);
	workload_at_most_32_bits(n);
	table = workload_memory(n * sizeof(*table));
	for (uint64_t i = 0; i < n; i++)
		table[i] = i;
	state = workload_seed(seed);
	if (chain)
		sum = chain_of(table, n, count, state);
	else
		for (uint64_t i = 0; i < count; i++)
			sum += table[workload_below(workload_random(&state), n)];
	free(table);
	return workload_finish(sum);
}
