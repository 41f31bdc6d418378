/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Keep records in order, as the table in a database's memory does: a skip list,
 * loaded in the order of keys, then put to, deleted from and read in short
 * ranges.  A search goes from node to node, anywhere in the heap; what is read
 * after it lies together only as long as nobody has changed it.
 */
#include "workload.h"

#define MOST_LEVELS 12u
#define TEXT_BYTES 64u
#define RANGE 8u

struct node {
	uint64_t key;
	unsigned char text[TEXT_BYTES];
	struct node *next[];	/* of each level */
};

struct list {
	struct node *head[MOST_LEVELS];
};

/* Where a search comes from on each level. */
struct path {
	struct node **from[MOST_LEVELS];
};

/* One node of four is on the next level, too. */
static unsigned levels_of(uint64_t random)
{
	unsigned levels = 1;

	while (levels < MOST_LEVELS && (random & 3) == 0) {
		random >>= 2;
		levels++;
	}
	return levels;
}

static struct node *new_node(uint64_t key, uint64_t value, unsigned levels)
{
	struct node *node = workload_memory(sizeof(*node) + levels * sizeof(node->next[0]));

	node->key = key;
	memset(node->text, (int)(value & 127), TEXT_BYTES);
	return node;
}

static void put_after(const struct path *path, struct node *node, unsigned levels)
{
	for (unsigned level = 0; level < levels; level++) {
		node->next[level] = *path->from[level];
		*path->from[level] = node;
	}
}

/* The first node of this key or a larger one; NULL if there is none. */
static struct node *find(struct list *list, uint64_t key, struct path *path)
{
	struct node **links = list->head;

	for (unsigned level = MOST_LEVELS; level-- > 0;) {
		while (links[level] && links[level]->key < key)
			links = links[level]->next;
		path->from[level] = &links[level];
	}
	return *path->from[0];
}

/* Each key is its number times four, so that three of four keys are free. */
static void load(struct list *list, uint64_t records, uint64_t *state)
{
	struct path path;

	for (unsigned level = 0; level < MOST_LEVELS; level++) {
		list->head[level] = NULL;
		path.from[level] = &list->head[level];
	}
	for (uint64_t i = 0; i < records; i++) {
		unsigned levels = levels_of(workload_random(state));
		struct node *node = new_node(4 * i, i, levels);

		put_after(&path, node, levels);
		for (unsigned level = 0; level < levels; level++)
			path.from[level] = &node->next[level];
	}
}

/* One request: put, delete, or read a range twice as often; what it found. */
static uint64_t serve(struct list *list, uint64_t key, uint64_t random)
{
	struct path path;
	struct node *node = find(list, key, &path);
	uint64_t sum = 0;

	switch (random & 3) {
	case 0:
		if (node && node->key == key) {
			sum = node->text[0];
			memset(node->text, (int)(random >> 2 & 127), TEXT_BYTES);
		} else {
			unsigned levels = levels_of(random >> 2);

			put_after(&path, new_node(key, random >> 2, levels), levels);
		}
		return sum;
	case 1:
		if (!node || node->key != key)
			return 0;
		sum = node->text[TEXT_BYTES - 1];
		for (unsigned level = 0; level < MOST_LEVELS; level++)
			if (*path.from[level] == node)
				*path.from[level] = node->next[level];
		free(node);
		return sum;
	default:
		for (unsigned i = 0; i < RANGE && node; i++, node = node->next[0])
			sum += node->key + node->text[TEXT_BYTES / 2];
		return sum;
	}
}

int main(int argc, char **argv)
{
	uint64_t records = 3000000, count = 600000, seed = 1, sum = 0, state;
	const struct workload_option options[] = {
		{ "count", &count, 0, "requests" },
		{ "records", &records, 1, "records loaded" },
		{ "seed", &seed, 0, "of the requests" },
	};
	struct list list;

	(void)argc;
	WORKLOAD_PARSE(argv, "Put, delete and read records of a skip list.", options);
	if (records > UINT32_MAX / 4) {
		fputs("--records is too large\n", stderr);
		return 2;
	}
	state = workload_seed(seed);
	load(&list, records, &state);
	for (uint64_t i = 0; i < count; i++) {
		uint64_t random = workload_random(&state);

		sum = sum * 31 + serve(&list, workload_below(random, 4 * records), random);
	}
	for (struct node *node = list.head[0], *next; node; node = next) {
		next = node->next[0];
		free(node);
	}
	return workload_finish(sum);
}
