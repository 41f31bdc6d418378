/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Search a random graph breadth first: its edges are read in order, the nodes
 * that they lead to are all over the memory.
 */
#include "workload.h"

#define UNSEEN UINT32_MAX

struct graph {
	uint32_t nodes;
	uint32_t degree;
	uint32_t *targets;	/* degree per node, in order of the nodes */
};

static void make_graph(struct graph *graph, uint64_t seed)
{
	uint64_t edges = (uint64_t)graph->nodes * graph->degree;
	uint64_t state = workload_seed(seed);

	graph->targets = workload_memory(edges * sizeof(*graph->targets));
	for (uint64_t i = 0; i < edges; i++)
		graph->targets[i] = (uint32_t)workload_below(workload_random(&state),
							     graph->nodes);
}

/* The sum of all distances from `root`; `distance` and `queue` hold one per node. */
static uint64_t search(const struct graph *graph, uint32_t root,
		       uint32_t *distance, uint32_t *queue)
{
	uint64_t sum = 0;
	uint32_t head = 0, tail = 0;

	for (uint32_t i = 0; i < graph->nodes; i++)
		distance[i] = UNSEEN;
	distance[root] = 0;
	queue[tail++] = root;
	while (head < tail) {
		uint32_t node = queue[head++];
		const uint32_t *targets = graph->targets + (uint64_t)node * graph->degree;

		sum += distance[node];
		for (uint32_t i = 0; i < graph->degree; i++)
			if (distance[targets[i]] == UNSEEN) {
				distance[targets[i]] = distance[node] + 1;
				queue[tail++] = targets[i];
			}
	}
	return sum;
}

int main(int argc, char **argv)
{
	uint64_t nodes = 8000000, degree = 8, count = 2, seed = 1;
	const struct workload_option options[] = {
		{ "count", &count, 0, "searches, each from another node" },
		{ "degree", &degree, 1, "edges of each node" },
		{ "nodes", &nodes, 1, "nodes" },
		{ "seed", &seed, 0, "of the graph" },
	};
	uint32_t *distance, *queue;
	struct graph graph;
	uint64_t sum = 0;

	(void)argc;
	WORKLOAD_PARSE(argv, "Search a random graph breadth first.", options);
	if (nodes >= UNSEEN || degree > 1024) {
		fputs("--nodes or --degree is too large\n", stderr);
		return 2;
	}
	graph.nodes = (uint32_t)nodes;
	graph.degree = (uint32_t)degree;
	make_graph(&graph, seed);
	distance = workload_memory(nodes * sizeof(*distance));
	queue = workload_memory(nodes * sizeof(*queue));
	for (uint64_t i = 0; i < count; i++)
		sum += search(&graph, (uint32_t)(i % nodes), distance, queue);
	free(queue);
	free(distance);
	free(graph.targets);
	return workload_finish(sum);
}
