/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * All threads read random places of all memory: the pattern of SSCA in "Large
 * Pages May Be Harmful on NUMA Systems", which gains from huge pages although
 * these are not spread evenly.  The threads touch base pages first in turn;
 * but of the 2 MiB regions one thread is the first in nearly half (7 of 16
 * with four threads).  No page is hot, as long as there are many.
 */
#include "team.h"

/* Of this many regions the first few are begun by the first thread. */
#define GROUP 16u
#define FIRST_THREADS 4u

struct graph {
	char *memory;
	uint64_t bytes, count, seed;
};

static void touch(struct team_member *member, const struct graph *graph)
{
	uint64_t threads = member->team->threads;
	uint64_t regions = graph->bytes / WORKLOAD_HUGE_BYTES;

	for (uint64_t i = 0; i < regions; i++) {
		uint64_t first = i % GROUP < FIRST_THREADS ? 0 : i % threads;

		if (first == member->number)
			graph->memory[i * WORKLOAD_HUGE_BYTES +
				      first * WORKLOAD_PAGE_BYTES] = 1;
	}
	team_wait(member);
	for (uint64_t i = member->number; i < graph->bytes / WORKLOAD_PAGE_BYTES;
	     i += threads)
		graph->memory[i * WORKLOAD_PAGE_BYTES] = (char)i;
	team_wait(member);
}

static void visit(struct team_member *member)
{
	const struct graph *graph = member->team->shared;
	uint64_t state = workload_seed(graph->seed + member->number);

	touch(member, graph);
	for (uint64_t i = 0; i < graph->count; i++)
		member->sum += (unsigned char)graph->memory
			[workload_below(workload_random(&state), graph->bytes)];
}

int main(int argc, char **argv)
{
	struct graph graph = { .bytes = 256u << 20, .count = 20000000, .seed = 1 };
	uint64_t threads = 4;
	const struct workload_option options[] = {
		{ "count", &graph.count, 1, "reads by each thread" },
		{ "seed", &graph.seed, 0, "of the random places" },
		{ "size", &graph.bytes, 65536, "bytes of memory" },
		{ "threads", &threads, 1, "threads" },
	};

	(void)argc;
	WORKLOAD_PARSE(argv, "Read random places of all memory.", options);
	workload_at_most_32_bits(graph.bytes);
	graph.memory = workload_aligned_memory(graph.bytes);
	return workload_finish(team_run(threads, visit, &graph));
}
