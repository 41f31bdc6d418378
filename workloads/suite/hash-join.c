/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Join two relations by a key, as a database does: chain the rows of the
 * smaller by the hash of their key, then look up each row of the larger, and
 * add up what belongs together.  Both relations are read in order, the heads
 * of the chains and the rows found are anywhere.
 */
#include "workload.h"

#define NO_ROW UINT32_MAX

struct row {
	uint64_t key;
	uint64_t value;
};

struct join {
	uint32_t *heads;	/* first row of each chain */
	uint32_t *next;		/* row of the chain after each row */
	unsigned bits;		/* of the number of chains */
};

static struct row *make_relation(uint64_t rows, uint64_t keys, uint64_t seed)
{
	struct row *relation = workload_memory(rows * sizeof(*relation));
	uint64_t state = workload_seed(seed);

	for (uint64_t i = 0; i < rows; i++) {
		relation[i].key = workload_below(workload_random(&state), keys);
		relation[i].value = i;
	}
	return relation;
}

static uint64_t chain(const struct join *join, uint64_t key)
{
	return key * 0x9e3779b97f4a7c15u >> (64 - join->bits);
}

static void build(struct join *join, const struct row *rows, uint64_t n)
{
	join->bits = 1;
	while (UINT64_C(1) << join->bits < n)
		join->bits++;
	join->heads = workload_memory((UINT64_C(1) << join->bits) * sizeof(*join->heads));
	join->next = workload_memory(n * sizeof(*join->next));
	for (uint64_t i = 0; i < UINT64_C(1) << join->bits; i++)
		join->heads[i] = NO_ROW;
	for (uint64_t i = 0; i < n; i++) {
		uint32_t *head = &join->heads[chain(join, rows[i].key)];

		join->next[i] = *head;
		*head = (uint32_t)i;
	}
}

static uint64_t probe(const struct join *join, const struct row *inner,
		      const struct row *outer, uint64_t n)
{
	uint64_t sum = 0;

	for (uint64_t i = 0; i < n; i++) {
		uint32_t row = join->heads[chain(join, outer[i].key)];

		for (; row != NO_ROW; row = join->next[row])
			if (inner[row].key == outer[i].key)
				sum += inner[row].value ^ outer[i].value;
	}
	return sum;
}

int main(int argc, char **argv)
{
	uint64_t rows = 3000000, count = 12000000, seed = 1;
	const struct workload_option options[] = {
		{ "count", &count, 0, "rows of the larger relation" },
		{ "rows", &rows, 1, "rows of the smaller relation" },
		{ "seed", &seed, 0, "of the keys" },
	};
	struct row *inner, *outer;
	struct join join;
	uint64_t sum;

	(void)argc;
	WORKLOAD_PARSE(argv, "Join two relations by hashing.", options);
	if (rows >= UINT32_MAX / 2) {
		fputs("--rows is too large\n", stderr);
		return 2;
	}
	/* Some keys are in one relation only. */
	inner = make_relation(rows, 2 * rows, seed);
	outer = make_relation(count, 2 * rows, seed + 1);
	build(&join, inner, rows);
	sum = probe(&join, inner, outer, count);
	free(join.heads);
	free(join.next);
	free(inner);
	free(outer);
	return workload_finish(sum);
}
