/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Each thread touches and reads its own part of memory, which begins and ends with huge pages:
 * nothing that larger pages could spoil on a NUMA machine.
 */
#include <time.h>

#include "team.h"

struct parts {
	char *memory;
	uint64_t part_bytes, count, seed, turn_s;
};

static uint64_t seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec;
}

static void visit(struct team_member *member)
{
	const struct parts *parts = member->team->shared;
	char *part = parts->memory + member->number * parts->part_bytes;
	const uint64_t begin = seconds();
	uint64_t state = workload_seed(parts->seed + member->number);

	team_touch(part, parts->part_bytes);
	team_wait(member);
	for (uint64_t i = 0; i < parts->count; i++) {
		if (parts->turn_s && i % 4096 == 0)
			part = parts->memory +
			       (member->number + (seconds() - begin) / parts->turn_s) %
				       member->team->threads * parts->part_bytes;
		member->sum += team_read_run(
			part + TEAM_RUN_BYTES *
				       workload_below(workload_random(&state),
						      parts->part_bytes /
							      TEAM_RUN_BYTES));
	}
}

int main(int argc, char **argv)
{
	struct parts parts = { .count = 1000000, .seed = 1 };
	uint64_t size = 256u << 20, threads = 4;
	const struct workload_option options[] = {
		{ "count", &parts.count, 1, "kilobytes that each thread reads" },
		{ "seed", &parts.seed, 0, "of the random places" },
		{ "size", &size, 65536, "bytes of memory" },
		{ "threads", &threads, 1, "threads" },
		{ "turn", &parts.turn_s, 1, "seconds after which each turns to the next part" },
	};

	(void)argc;
	WORKLOAD_PARSE(argv, "Read memory that belongs to one thread each.", options);
	parts.part_bytes = team_whole_pages(size / threads);
	workload_at_most_32_bits(parts.part_bytes);
	parts.memory = workload_aligned_memory(threads * parts.part_bytes);
	return workload_finish(team_run(threads, visit, &parts));
}
