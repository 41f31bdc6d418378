/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Look up random keys of a B+-tree and read on from there, as an index of a
 * database does.  Each node is an allocation of 512 bytes; a lookup visits one
 * of each level, and only the upper levels are few enough to stay near.
 */
#include "workload.h"

#define FANOUT 31u

struct node {
	uint64_t used;			/* keys, and values or children */
	uint64_t keys[FANOUT];		/* the smallest below each child */
	union {
		struct node *children[FANOUT];
		uint64_t values[FANOUT];
	};
	struct node *next;		/* to the right on the same level */
};

/* A level of full nodes over `n` children, or over keys if there are none. */
static uint64_t build_level(struct node **level, struct node **children, uint64_t n)
{
	uint64_t nodes = 0;

	for (uint64_t i = 0; i < n; i++) {
		/* Read before its place is taken: both may be the same array. */
		struct node *child = children ? children[i] : NULL;
		struct node *node;

		if (i % FANOUT == 0) {
			node = workload_memory(sizeof(*node));
			node->used = 0;
			node->next = NULL;
			if (nodes > 0)
				level[nodes - 1]->next = node;
			level[nodes++] = node;
		}
		node = level[nodes - 1];
		node->keys[node->used] = child ? child->keys[0] : 3 * i;
		if (child)
			node->children[node->used++] = child;
		else
			node->values[node->used++] = i;
	}
	return nodes;
}

/* The last of the node's keys that is not larger, or the first. */
static uint64_t place(const struct node *node, uint64_t key)
{
	uint64_t low = 0, high = node->used;

	while (high - low > 1) {
		uint64_t middle = (low + high) / 2;

		if (node->keys[middle] <= key)
			low = middle;
		else
			high = middle;
	}
	return low;
}

/* The sum of `scan` values from the key on. */
static uint64_t look_up(const struct node *node, unsigned levels, uint64_t key,
			uint64_t scan)
{
	uint64_t sum = 0, i;

	while (--levels > 0)
		node = node->children[place(node, key)];
	i = place(node, key);
	while (node && scan-- > 0) {
		sum += node->values[i];
		if (++i == node->used) {
			node = node->next;
			i = 0;
		}
	}
	return sum;
}

static void free_tree(struct node *node, unsigned levels)
{
	if (levels > 1)
		for (uint64_t i = 0; i < node->used; i++)
			free_tree(node->children[i], levels - 1);
	free(node);
}

int main(int argc, char **argv)
{
	uint64_t keys = 8000000, count = 2000000, scan = 10, seed = 1;
	const struct workload_option options[] = {
		{ "count", &count, 0, "lookups" },
		{ "keys", &keys, 1, "keys of the tree" },
		{ "scan", &scan, 1, "values read from each key on" },
		{ "seed", &seed, 0, "of the random keys" },
	};
	struct node **level, *root;
	uint64_t nodes, state, sum = 0;
	unsigned levels = 1;

	(void)argc;
	WORKLOAD_PARSE(argv, "Look up keys of a B+-tree.", options);
	workload_at_most_32_bits(keys);
	level = workload_memory((keys / FANOUT + 1) * sizeof(struct node *));
	for (nodes = build_level(level, NULL, keys); nodes > 1; levels++)
		nodes = build_level(level, level, nodes);
	root = level[0];
	free(level);
	state = workload_seed(seed);
	for (uint64_t i = 0; i < count; i++)
		sum += look_up(root, levels, 3 * workload_below(workload_random(&state), keys),
			       scan);
	free_tree(root, levels);
	return workload_finish(sum);
}
