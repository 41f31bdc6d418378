/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which nodes of a graph are connected, when edges come one by one?  Each end
 * of an edge leads, anywhere in the memory, to the root of its set in few
 * dependent steps, which get fewer as ways are halved.
 */
#include "workload.h"

/* The root of a node's set; those on the way then lead nearer to it. */
static int32_t root_of(int32_t *parent, int32_t node)
{
	while (parent[node] >= 0) {
		int32_t next = parent[node];

		if (parent[next] >= 0)
			parent[node] = parent[next];
		node = next;
	}
	return node;
}

/* Roots have the size of their set, negative. Returns whether there were two sets. */
static int connect(int32_t *parent, int32_t a, int32_t b)
{
	a = root_of(parent, a);
	b = root_of(parent, b);
	if (a == b)
		return 0;
	if (parent[a] > parent[b]) {
		int32_t other = a;

		a = b;
		b = other;
	}
	parent[a] += parent[b];
	parent[b] = a;
	return 1;
}

int main(int argc, char **argv)
{
	uint64_t nodes = 256000000, edges = 14000000, seed = 1, state, sets, sum = 0;
	const struct workload_option options[] = {
		{ "edges", &edges, 0, "edges" },
		{ "nodes", &nodes, 1, "nodes" },
		{ "seed", &seed, 0, "of the edges" },
	};
	int32_t *parent;

	(void)argc;
	WORKLOAD_PARSE(argv, "Find which nodes are connected.", options);
	if (nodes > INT32_MAX) {
		fputs("--nodes is too large\n", stderr);
		return 2;
	}
	parent = workload_memory(nodes * sizeof(*parent));
	for (uint64_t i = 0; i < nodes; i++)
		parent[i] = -1;
	sets = nodes;
	state = workload_seed(seed);
	for (uint64_t i = 0; i < edges; i++) {
		uint64_t from = workload_below(workload_random(&state), nodes);
		uint64_t to = workload_below(workload_random(&state), nodes);

		if (connect(parent, (int32_t)from, (int32_t)to)) {
			sets--;
			sum = sum * 31 + i;
		}
	}
	free(parent);
	return workload_finish(sum + sets);
}
