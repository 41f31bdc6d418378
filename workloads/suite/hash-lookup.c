/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Look up random keys of an open-addressing hash table that fills --size
 * bytes.  Each lookup goes to another page, and none waits for the one before.
 */
#include "workload.h"

struct slot {
	uint64_t key;	/* 0: empty */
	uint64_t value;
};

/* The finaliser of MurmurHash3: a bijection, so that the keys are distinct. */
static uint64_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdu;
	x ^= x >> 33;
	x *= 0xc4ceb9fe1a85ec53u;
	x ^= x >> 33;
	return x;
}

static struct slot *find(struct slot *slots, uint64_t n, uint64_t key)
{
	uint64_t i = workload_below(key, n);

	while (slots[i].key && slots[i].key != key)
		i = i + 1 == n ? 0 : i + 1;
	return &slots[i];
}

int main(int argc, char **argv)
{
	uint64_t size = 256u << 20, count = 20000000, seed = 1;
	const struct workload_option options[] = {
		{ "count", &count, 1, "lookups" },
		{ "seed", &seed, 0, "of the random keys" },
		{ "size", &size, 64, "bytes of the table" },
	};
	uint64_t n, keys, state, sum = 0;
	struct slot *slots;

	(void)argc;
	WORKLOAD_PARSE(argv, "Look up keys in a half-full hash table.", options);
	n = size / sizeof(*slots);
	workload_at_most_32_bits(n);
	keys = n / 2;
	slots = workload_memory(n * sizeof(*slots));
	memset(slots, 0, (size_t)(n * sizeof(*slots)));
	for (uint64_t i = 1; i <= keys; i++) {
		struct slot *slot = find(slots, n, mix(i));

		slot->key = mix(i);
		slot->value = i;
	}
	state = workload_seed(seed);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t which = workload_below(workload_random(&state), keys);

		sum += find(slots, n, mix(which + 1))->value;
	}
	free(slots);
	return workload_finish(sum);
}
