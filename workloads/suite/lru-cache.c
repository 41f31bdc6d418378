/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Serve requests from a cache that forgets the least recently used object: a
 * hash table whose entries are a list by age, too.  Objects are allocations of
 * different sizes that come and go, so that neighbours in a list are anywhere.
 */
#include "workload.h"

#define LEAST_BYTES 32u
#define MOST_BYTES 256u

struct entry {
	struct entry *chained;		/* with the same hash */
	struct entry *newer, *older;
	uint64_t key;
	uint64_t bytes;
	unsigned char value[];
};

struct cache {
	struct entry **buckets;
	uint64_t n;
	uint64_t entries;
	struct entry *ages;	/* no object; older: the newest, newer: the oldest */
};

static struct entry **find(struct cache *cache, uint64_t key)
{
	uint64_t hash = key * 0x9e3779b97f4a7c15u;
	struct entry **place = &cache->buckets[workload_below(hash, cache->n)];

	while (*place && (*place)->key != key)
		place = &(*place)->chained;
	return place;
}

static void unlink_age(struct entry *entry)
{
	entry->newer->older = entry->older;
	entry->older->newer = entry->newer;
}

static void make_newest(struct cache *cache, struct entry *entry)
{
	entry->newer = cache->ages;
	entry->older = cache->ages->older;
	entry->older->newer = entry;
	cache->ages->older = entry;
}

static void evict(struct cache *cache)
{
	struct entry *oldest = cache->ages->newer;
	struct entry **place = find(cache, oldest->key);

	*place = oldest->chained;
	unlink_age(oldest);
	free(oldest);
	cache->entries--;
}

static struct entry *insert(struct cache *cache, uint64_t key)
{
	uint64_t bytes = LEAST_BYTES + key * 7919 % (MOST_BYTES - LEAST_BYTES);
	struct entry *entry = workload_memory(sizeof(*entry) + bytes);
	struct entry **place = find(cache, key);

	entry->key = key;
	entry->bytes = bytes;
	memset(entry->value, (int)(key & 0xff), bytes);
	entry->chained = NULL;
	*place = entry;
	cache->entries++;
	return entry;
}

int main(int argc, char **argv)
{
	uint64_t entries = 600000, keys = 2000000, count = 5000000, seed = 1;
	const struct workload_option options[] = {
		{ "count", &count, 0, "requests" },
		{ "entries", &entries, 1, "objects that the cache holds" },
		{ "keys", &keys, 1, "objects that there are" },
		{ "seed", &seed, 0, "of the requests" },
	};
	struct cache cache = { 0 };
	uint64_t state, sum = 0;

	(void)argc;
	WORKLOAD_PARSE(argv, "Serve requests from a cache.", options);
	workload_at_most_32_bits(keys);
	workload_at_most_32_bits(entries);
	cache.n = entries;
	cache.buckets = workload_memory(entries * sizeof(struct entry *));
	memset(cache.buckets, 0, entries * sizeof(struct entry *));
	cache.ages = workload_memory(sizeof(*cache.ages));
	cache.ages->newer = cache.ages->older = cache.ages;
	state = workload_seed(seed);
	for (uint64_t i = 0; i < count; i++) {
		/* Small keys are asked for more often. */
		uint64_t key = workload_below(workload_random(&state), keys);
		struct entry *entry;

		key = workload_below(workload_random(&state), key + 1);
		entry = *find(&cache, key);
		if (entry) {
			unlink_age(entry);
		} else {
			if (cache.entries == entries)
				evict(&cache);
			entry = insert(&cache, key);
			sum += key << 32;
		}
		make_newest(&cache, entry);
		sum += entry->value[entry->bytes - 1];
	}
	while (cache.entries > 0)
		evict(&cache);
	free(cache.ages);
	free(cache.buckets);
	return workload_finish(sum);
}
