/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Count the bytes of each connection in a table where a key has two buckets to
 * be in, and where one without a place turns another out, which goes to its
 * other bucket ("cuckoo hashing").  Two places of a large table for each packet,
 * neither of which depends on what the other holds.
 */
#include "workload.h"

#define SLOTS 4u
#define MOST_MOVES 1000

struct slot {
	uint64_t key;		/* 0: free */
	uint64_t bytes;
};

struct bucket {
	struct slot slots[SLOTS];
};

struct table {
	struct bucket *buckets;
	uint64_t mask;
	uint64_t victim;	/* state of random numbers */
};

static uint64_t mixed(uint64_t key, uint64_t factor)
{
	key *= factor;
	key ^= key >> 29;
	key *= 0xbf58476d1ce4e5b9u;
	return key ^ key >> 32;
}

static struct bucket *bucket_of(const struct table *table, uint64_t key, int which)
{
	uint64_t hash = mixed(key, which ? 0x94d049bb133111ebu : 0x9e3779b97f4a7c15u);

	return &table->buckets[hash & table->mask];
}

/* The key's slot; NULL if it has none.  Key 0 finds one that is free. */
static struct slot *slot_in(struct bucket *bucket, uint64_t key)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (bucket->slots[i].key == key)
			return &bucket->slots[i];
	return NULL;
}

static struct slot *find(const struct table *table, uint64_t key)
{
	struct bucket *first = bucket_of(table, key, 0), *second = bucket_of(table, key, 1);
	struct slot *slot = slot_in(first, key);

	return slot ? slot : slot_in(second, key);
}

/* A key that is not there yet; exits 1 if there is no place for all. */
static void insert(struct table *table, struct slot new)
{
	struct bucket *bucket = bucket_of(table, new.key, 0);
	struct slot *slot = slot_in(bucket, 0);

	for (int moves = 0; !slot; moves++) {
		struct slot *victim, old;

		if (moves == MOST_MOVES) {
			fputs("no place for a connection: the table is too small\n", stderr);
			exit(1);
		}
		/* The key's other bucket than the one that has just been seen to be full. */
		if (bucket == bucket_of(table, new.key, 0))
			bucket = bucket_of(table, new.key, 1);
		else
			bucket = bucket_of(table, new.key, 0);
		slot = slot_in(bucket, 0);
		if (slot)
			break;
		victim = &bucket->slots[workload_random(&table->victim) >> 32 & (SLOTS - 1)];
		old = *victim;
		*victim = new;
		new = old;
	}
	*slot = new;
}

/* What a connection had before: begins if it was not there; an eighth of packets end it. */
static uint64_t packet(struct table *table, uint64_t key, uint64_t random)
{
	struct slot *slot = find(table, key);
	uint64_t bytes = 40 + (random & 0x3ff), before;

	if (!slot) {
		insert(table, (struct slot){ key, bytes });
		return 0;
	}
	before = slot->bytes;
	if (random >> 10 & 7)
		slot->bytes += bytes;
	else
		slot->key = 0;
	return before;
}

int main(int argc, char **argv)
{
	uint64_t buckets = 4 << 20, keys = 13000000, count = 11000000, seed = 1, state, sum = 0;
	const struct workload_option options[] = {
		{ "buckets", &buckets, 1, "of four slots each: a power of two" },
		{ "count", &count, 0, "packets" },
		{ "keys", &keys, 1, "connections, half of which there are at first" },
		{ "seed", &seed, 0, "of the packets" },
	};
	struct table table = { 0 };

	(void)argc;
	WORKLOAD_PARSE(argv, "Count the bytes of connections.", options);
	workload_at_most_32_bits(keys);
	if (buckets & (buckets - 1) || buckets > UINT64_C(1) << 32) {
		fputs("--buckets must be a power of two, and at most 4G\n", stderr);
		return 2;
	}
	table.buckets = workload_memory(buckets * sizeof(*table.buckets));
	memset(table.buckets, 0, buckets * sizeof(*table.buckets));
	table.mask = buckets - 1;
	table.victim = workload_seed(seed + 1);
	state = workload_seed(seed);
	for (uint64_t key = 2; key <= keys; key += 2)
		insert(&table, (struct slot){ key, 1 });
	for (uint64_t i = 0; i < count; i++) {
		uint64_t key = 1 + workload_below(workload_random(&state), keys);

		sum = sum * 31 + packet(&table, key, workload_random(&state));
	}
	free(table.buckets);
	return workload_finish(sum);
}
