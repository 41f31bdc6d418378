/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How far is each crossing of a town from the first?  Dijkstra's algorithm:
 * the crossings to visit next, in a binary heap, are a line that grows
 * outwards; their neighbours lie in the same row or a row away.
 */
#include "workload.h"

#define ROADS 4u
#define FAR UINT32_MAX

struct crossing {
	uint32_t to[ROADS];
	uint32_t length[ROADS];	/* 0: no road */
};

struct entry {
	uint32_t distance;
	uint32_t crossing;
};

struct heap {
	struct entry *entries;
	uint64_t n;
};

static void push(struct heap *heap, struct entry entry)
{
	uint64_t i = heap->n++;

	while (i > 0 && heap->entries[(i - 1) / 2].distance > entry.distance) {
		heap->entries[i] = heap->entries[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	heap->entries[i] = entry;
}

static struct entry pop(struct heap *heap)
{
	struct entry first = heap->entries[0], last = heap->entries[--heap->n];
	uint64_t i = 0, child;

	while ((child = 2 * i + 1) < heap->n) {
		if (child + 1 < heap->n &&
		    heap->entries[child + 1].distance < heap->entries[child].distance)
			child++;
		if (heap->entries[child].distance >= last.distance)
			break;
		heap->entries[i] = heap->entries[child];
		i = child;
	}
	heap->entries[i] = last;
	return first;
}

/* A road in both directions; one of eight is missing. */
static void connect(struct crossing *town, uint32_t from, uint32_t to,
		    unsigned way, uint64_t random)
{
	uint32_t length = random & 7 ? 20 + (uint32_t)workload_below(random, 100) : 0;

	town[from].to[way] = to;
	town[from].length[way] = length;
	town[to].to[way + 2] = from;
	town[to].length[way + 2] = length;
}

static void make_town(struct crossing *town, uint32_t order, uint64_t seed)
{
	uint64_t state = workload_seed(seed);

	memset(town, 0, (uint64_t)order * order * sizeof(*town));
	for (uint32_t i = 0; i < order * order; i++) {
		if ((i + 1) % order)
			connect(town, i, i + 1, 0, workload_random(&state));
		if (i + order < order * order)
			connect(town, i, i + order, 1, workload_random(&state));
	}
}

static void search(const struct crossing *town, uint32_t *distance,
		   struct heap *heap)
{
	push(heap, (struct entry){ 0, 0 });
	distance[0] = 0;
	while (heap->n > 0) {
		struct entry here = pop(heap);
		const struct crossing *crossing = &town[here.crossing];

		/* There was a shorter way since. */
		if (here.distance != distance[here.crossing])
			continue;
		for (unsigned i = 0; i < ROADS; i++) {
			uint32_t far = here.distance + crossing->length[i];

			if (crossing->length[i] && far < distance[crossing->to[i]]) {
				distance[crossing->to[i]] = far;
				push(heap, (struct entry){ far, crossing->to[i] });
			}
		}
	}
}

int main(int argc, char **argv)
{
	uint64_t order = 3000, seed = 1, n, sum = 0;
	const struct workload_option options[] = {
		{ "order", &order, 1, "crossings in each direction" },
		{ "seed", &seed, 0, "of the roads" },
	};
	struct crossing *town;
	struct heap heap = { 0 };
	uint32_t *distance;

	(void)argc;
	WORKLOAD_PARSE(argv, "Find the shortest ways in a town.", options);
	if (order > 30000) {
		fputs("--order is too large\n", stderr);
		return 2;
	}
	n = order * order;
	town = workload_memory(n * sizeof(*town));
	distance = workload_memory(n * sizeof(*distance));
	/* Each road is a reason to be pushed once from either end. */
	heap.entries = workload_memory((n * ROADS + 1) * sizeof(*heap.entries));
	make_town(town, (uint32_t)order, seed);
	for (uint64_t i = 0; i < n; i++)
		distance[i] = FAR;
	search(town, distance, &heap);
	for (uint64_t i = 0; i < n; i++)
		sum = sum * 31 + distance[i];
	free(heap.entries);
	free(distance);
	free(town);
	return workload_finish(sum);
}
