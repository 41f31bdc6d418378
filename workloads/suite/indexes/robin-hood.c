/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Keep who is signed in, in one table with open addressing.  Who comes later
 * takes the place of who is nearer to home, and who leaves makes the others
 * move back ("Robin Hood hashing").  Each request starts at a place of its own,
 * anywhere in the table, and continues in order from there.
 */
#include "workload.h"

struct slot {
	uint64_t key;		/* 0: free */
	uint64_t value;
};

struct table {
	struct slot *slots;
	uint64_t mask;
	uint64_t n;
	uint64_t most;
};

static uint64_t home(const struct table *table, uint64_t key)
{
	key ^= key >> 33;
	key *= 0xff51afd7ed558ccdu;
	key ^= key >> 33;
	key *= 0xc4ceb9fe1a85ec53u;
	return (key ^ key >> 33) & table->mask;
}

/* How far from home the key of a place is. */
static uint64_t distance(const struct table *table, uint64_t place)
{
	return (place - home(table, table->slots[place].key)) & table->mask;
}

/* Where the key is; NULL if nowhere. */
static struct slot *find(const struct table *table, uint64_t key)
{
	uint64_t place = home(table, key);

	for (uint64_t far = 0;; far++, place = (place + 1) & table->mask) {
		struct slot *slot = &table->slots[place];

		if (slot->key == key)
			return slot;
		if (!slot->key || distance(table, place) < far)
			return NULL;
	}
}

/* A key that is not there yet; 0 if there are too many. */
static uint64_t insert(struct table *table, struct slot new)
{
	uint64_t place = home(table, new.key), far = 0;

	if (table->n == table->most)
		return 0;
	table->n++;
	for (;; far++, place = (place + 1) & table->mask) {
		struct slot old = table->slots[place];
		uint64_t its;

		if (!old.key)
			break;
		its = distance(table, place);
		if (its < far) {
			table->slots[place] = new;
			new = old;
			far = its;
		}
	}
	table->slots[place] = new;
	return 1;
}

static void leave(struct table *table, const struct slot *slot)
{
	uint64_t place = (uint64_t)(slot - table->slots);
	uint64_t next = (place + 1) & table->mask;

	while (table->slots[next].key && distance(table, next) > 0) {
		table->slots[place] = table->slots[next];
		place = next;
		next = (next + 1) & table->mask;
	}
	table->slots[place].key = 0;
	table->n--;
}

/* Half of the requests ask, a quarter signs in (or again), a quarter leaves. */
static uint64_t request(struct table *table, uint64_t key, uint64_t random)
{
	struct slot *slot = find(table, key);
	uint64_t was = slot ? slot->value : 0;

	switch (random & 3) {
	case 0:
		if (!slot)
			return insert(table, (struct slot){ key, random >> 2 & 0xffff });
		slot->value = random >> 2 & 0xffff;
		break;
	case 1:
		if (slot)
			leave(table, slot);
		break;
	default:
		if (slot)
			slot->value++;
	}
	return was;
}

int main(int argc, char **argv)
{
	uint64_t slots = 16 << 20, keys = 24000000, count = 6000000, seed = 1, state, sum = 0;
	const struct workload_option options[] = {
		{ "count", &count, 0, "requests" },
		{ "keys", &keys, 1, "people, half of them signed in at first" },
		{ "seed", &seed, 0, "of the requests" },
		{ "slots", &slots, 8, "of the table: a power of two" },
	};
	struct table table = { 0 };

	(void)argc;
	WORKLOAD_PARSE(argv, "Keep who is signed in.", options);
	workload_at_most_32_bits(keys);
	if (slots & (slots - 1) || slots > UINT64_C(1) << 40) {
		fputs("--slots must be a power of two, and at most 1024G\n", stderr);
		return 2;
	}
	table.slots = workload_memory(slots * sizeof(*table.slots));
	memset(table.slots, 0, slots * sizeof(*table.slots));
	table.mask = slots - 1;
	table.most = slots - slots / 8;
	state = workload_seed(seed);
	for (uint64_t key = 1; key <= keys; key += 2)
		insert(&table, (struct slot){ key, key & 0xff });
	for (uint64_t i = 0; i < count; i++) {
		uint64_t random = workload_random(&state);

		sum = sum * 31 + request(&table, 1 + workload_below(random, keys), random);
	}
	free(table.slots);
	return workload_finish(sum * 31 + table.n);
}
