/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Each thread reads its own part of a matrix, and all read one vector at random places: the
 * pattern of NPB's CG in "Large Pages May Be Harmful on NUMA Systems".  The threads touch
 * equal parts of the vector first, so that its base pages are spread over their nodes; but 2
 * MiB of it are one huge page, which is on one node and hot.
 *
 * A row is two lines of the matrix and one of the vector, so a third of the memory accesses
 * are the vector's, if no cache holds it.
 */
#include "team.h"

#define ROW_WORDS 16u

struct system {
	uint64_t *matrix, *vector;
	uint64_t part_bytes, vector_bytes, rounds, seed;
};

static void multiply(struct team_member *member)
{
	const struct system *system = member->team->shared;
	uint64_t words = system->part_bytes / sizeof(uint64_t);
	uint64_t elements = system->vector_bytes / sizeof(uint64_t);
	uint64_t share = system->vector_bytes / member->team->threads;
	uint64_t *part = system->matrix + member->number * words;
	uint64_t state = workload_seed(system->seed + member->number);

	team_touch((char *)part, system->part_bytes);
	team_touch((char *)system->vector + member->number * share, share);
	team_wait(member);
	for (uint64_t round = 0; round < system->rounds; round++) {
		for (uint64_t i = 0; i + ROW_WORDS <= words; i += ROW_WORDS) {
			uint64_t random = workload_random(&state);

			for (uint64_t j = 0; j < ROW_WORDS; j++)
				member->sum += part[i + j];
			member->sum +=
				system->vector[workload_below(random, elements)];
		}
		team_wait(member);
	}
}

int main(int argc, char **argv)
{
	struct system system = { .seed = 1 };
	uint64_t size = 64u << 20, threads = 4;
	const struct workload_option options[] = {
		{ "rounds", &system.rounds, 1, "times through the matrix" },
		{ "seed", &system.seed, 0, "of the random places" },
		{ "size", &size, 65536, "bytes of the matrix" },
		{ "threads", &threads, 1, "threads" },
		{ "vector", &system.vector_bytes, 4096, "bytes of the vector" },
	};

	(void)argc;
	system.rounds = 20;
	system.vector_bytes = WORKLOAD_HUGE_BYTES;
	WORKLOAD_PARSE(argv, "Read a matrix in parts, and one vector.", options);
	system.part_bytes = team_whole_pages(size / threads);
	system.vector = workload_aligned_memory(
		team_whole_pages(system.vector_bytes) +
		threads * system.part_bytes);
	system.matrix = system.vector + team_whole_pages(system.vector_bytes) /
						sizeof(uint64_t);
	return workload_finish(team_run(threads, multiply, &system));
}
