/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Rank the nodes of a graph by the ranks of those that lead to them.  The
 * edges are read in order; the ranks that they need are anywhere, those of
 * popular nodes more often.
 */
#include "workload.h"

#define DAMPING 0.85

struct graph {
	uint32_t nodes;
	uint64_t *first;	/* edge into each node; one more as the end */
	uint32_t *sources;
	uint32_t *leaving;	/* edges out of each node */
};

/* Few nodes have many edges, anywhere among the others. */
static uint32_t popular(uint64_t *state, uint32_t nodes)
{
	uint64_t rank = workload_below(workload_random(state), nodes);

	rank = workload_below(workload_random(state), rank + 1);
	rank = workload_below(workload_random(state), rank + 1);
	return (uint32_t)(rank * 2654435761u % nodes);
}

static void make_graph(struct graph *graph, uint64_t degree, uint64_t seed)
{
	uint64_t state = workload_seed(seed), edges = 0;

	graph->first = workload_memory(((uint64_t)graph->nodes + 1) * sizeof(*graph->first));
	for (uint32_t i = 0; i < graph->nodes; i++) {
		graph->first[i] = edges;
		edges += 1 + workload_below(workload_random(&state), 2 * degree - 1);
	}
	graph->first[graph->nodes] = edges;
	graph->sources = workload_memory(edges * sizeof(*graph->sources));
	graph->leaving = workload_memory(graph->nodes * sizeof(*graph->leaving));
	memset(graph->leaving, 0, graph->nodes * sizeof(*graph->leaving));
	for (uint64_t i = 0; i < edges; i++) {
		graph->sources[i] = popular(&state, graph->nodes);
		graph->leaving[graph->sources[i]]++;
	}
}

static void iterate(const struct graph *graph, double *rank, double *share)
{
	for (uint32_t i = 0; i < graph->nodes; i++)
		share[i] = graph->leaving[i] ? rank[i] / graph->leaving[i] : 0;
	for (uint32_t i = 0; i < graph->nodes; i++) {
		double sum = 0;

		for (uint64_t k = graph->first[i]; k < graph->first[i + 1]; k++)
			sum += share[graph->sources[k]];
		rank[i] = (1 - DAMPING) / graph->nodes + DAMPING * sum;
	}
}

int main(int argc, char **argv)
{
	uint64_t nodes = 3000000, degree = 6, rounds = 12, seed = 1, bits, sum = 0;
	const struct workload_option options[] = {
		{ "degree", &degree, 1, "edges of a node, on average" },
		{ "nodes", &nodes, 1, "nodes" },
		{ "rounds", &rounds, 0, "iterations" },
		{ "seed", &seed, 0, "of the graph" },
	};
	double *rank, *share;
	struct graph graph;

	(void)argc;
	WORKLOAD_PARSE(argv, "Rank the nodes of a graph.", options);
	if (nodes >= UINT32_MAX || degree > 1024) {
		fputs("--nodes or --degree is too large\n", stderr);
		return 2;
	}
	graph.nodes = (uint32_t)nodes;
	make_graph(&graph, degree, seed);
	rank = workload_memory(nodes * sizeof(*rank));
	share = workload_memory(nodes * sizeof(*share));
	for (uint64_t i = 0; i < nodes; i++)
		rank[i] = 1.0 / (double)nodes;
	for (uint64_t i = 0; i < rounds; i++)
		iterate(&graph, rank, share);
	for (uint64_t i = 0; i < nodes; i++) {
		memcpy(&bits, &rank[i], sizeof(bits));
		sum = sum * 31 + bits;
	}
	free(graph.first);
	free(graph.sources);
	free(graph.leaving);
	free(rank);
	free(share);
	return workload_finish(sum);
}
