/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where does a packet go?  The longest of the routes whose first bits are its
 * address's, found in a tree that four bits of the address descend at a time.
 * Each node is an allocation of its own, and each step waits for the one before.
 */
#include "workload.h"

#define CHILDREN 16u
#define ADDRESS_BITS 32u

struct node {
	struct node *child[CHILDREN];
	uint16_t hop[CHILDREN];		/* 0: no route ends here */
	uint8_t length[CHILDREN];	/* bits of that route */
};

static struct node *new_node(void)
{
	struct node *node = workload_memory(sizeof(*node));

	memset(node, 0, sizeof(*node));
	return node;
}

/* A route of 1 to 32 bits; the longer one wins where two end in one node. */
static void add(struct node *node, uint32_t address, unsigned length, uint16_t hop)
{
	unsigned depth = 0, first, entries;

	for (; length - depth > 4; depth += 4) {
		struct node **next = &node->child[address >> (28 - depth) & 15];

		if (!*next)
			*next = new_node();
		node = *next;
	}
	/* Fewer than four bits are left where a route has several entries. */
	entries = 1u << (4 - (length - depth));
	first = (address >> (28 - depth) & 15) & ~(entries - 1);
	for (unsigned i = first; i < first + entries; i++)
		if (node->length[i] <= length) {
			node->length[i] = (uint8_t)length;
			node->hop[i] = hop;
		}
}

static uint16_t find(const struct node *node, uint32_t address)
{
	uint16_t hop = 0;

	for (unsigned shift = 28; node; shift -= 4) {
		unsigned i = address >> shift & 15;

		if (node->hop[i])
			hop = node->hop[i];
		node = node->child[i];
	}
	return hop;
}

static void free_tree(struct node *node)
{
	if (!node)
		return;
	for (unsigned i = 0; i < CHILDREN; i++)
		free_tree(node->child[i]);
	free(node);
}

/* Most routes have 16 to 24 bits, some more. */
static unsigned random_length(uint64_t *state)
{
	uint64_t random = workload_random(state);

	if (workload_below(random, 8) == 0)
		return 25 + (unsigned)(random & 7);
	return 24 - (unsigned)workload_below(random << 8, 1 + (random & 7));
}

int main(int argc, char **argv)
{
	uint64_t routes = 800000, count = 7000000, seed = 1, state, sum = 0;
	const struct workload_option options[] = {
		{ "count", &count, 0, "packets" },
		{ "routes", &routes, 1, "routes" },
		{ "seed", &seed, 0, "of the routes" },
	};
	struct node *root;
	uint32_t *address;

	(void)argc;
	WORKLOAD_PARSE(argv, "Find the longest matching routes.", options);
	workload_at_most_32_bits(routes);
	address = workload_memory(routes * sizeof(*address));
	root = new_node();
	state = workload_seed(seed);
	for (uint64_t i = 0; i < routes; i++) {
		address[i] = (uint32_t)(workload_random(&state) >> 32);
		add(root, address[i], random_length(&state), (uint16_t)(1 + i % 60000));
	}
	for (uint64_t i = 0; i < count; i++) {
		/* Some networks get much of the traffic. */
		uint64_t random = workload_random(&state);
		uint64_t network = workload_below(random, routes);

		network = workload_below(workload_random(&state), network + 1);
		sum = sum * 31 + find(root, address[network] ^ (uint32_t)(random & 255));
	}
	free_tree(root);
	free(address);
	return workload_finish(sum);
}
