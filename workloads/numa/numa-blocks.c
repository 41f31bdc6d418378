/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Adjacent blocks smaller than 2 MiB belong to the threads in turn; a thread mostly reads its
 * own: the pattern of NPB's UA in "Large Pages May Be Harmful on NUMA Systems".  On base pages
 * each block is where its thread runs; a huge page holds parts of two blocks, of different
 * threads, and can be near one of them only: page-level false sharing.
 *
 * The owner of the greater part of a huge page touches it first.
 */
#include "team.h"

struct blocks {
	char *memory;
	uint64_t block_bytes, blocks, count, own_percent, seed;
};

static uint64_t owner(const struct team_member *member,
		      const struct blocks *blocks, uint64_t offset)
{
	return offset / blocks->block_bytes % member->team->threads;
}

static void touch(struct team_member *member, const struct blocks *blocks)
{
	uint64_t bytes = blocks->blocks * blocks->block_bytes;

	for (uint64_t at = 0; at < bytes; at += WORKLOAD_HUGE_BYTES) {
		uint64_t middle = at + WORKLOAD_HUGE_BYTES / 2;
		uint64_t mine = at;

		/* The page that is touched is the thread's own on base pages, too. */
		if (middle >= bytes || owner(member, blocks, middle) != member->number)
			continue;
		while (owner(member, blocks, mine) != member->number)
			mine += WORKLOAD_PAGE_BYTES;
		blocks->memory[mine] = 1;
	}
	team_wait(member);
	for (uint64_t i = member->number; i < blocks->blocks;
	     i += member->team->threads)
		team_touch(blocks->memory + i * blocks->block_bytes,
			   blocks->block_bytes);
	team_wait(member);
}

static void visit(struct team_member *member)
{
	const struct blocks *blocks = member->team->shared;
	uint64_t threads = member->team->threads;
	uint64_t own_blocks = blocks->blocks / threads;
	uint64_t state = workload_seed(blocks->seed + member->number);

	touch(member, blocks);
	for (uint64_t i = 0; i < blocks->count; i++) {
		uint64_t random = workload_random(&state);
		uint64_t block = workload_below(random, blocks->blocks);

		if (random % 100 < blocks->own_percent)
			block = block % own_blocks * threads + member->number;
		random = workload_random(&state);
		random = workload_below(random, blocks->block_bytes / TEAM_RUN_BYTES);
		member->sum += team_read_run(blocks->memory +
					     block * blocks->block_bytes +
					     random * TEAM_RUN_BYTES);
	}
}

int main(int argc, char **argv)
{
	struct blocks blocks = { .seed = 1 };
	uint64_t threads = 4;
	const struct workload_option options[] = {
		{ "block", &blocks.block_bytes, 4096, "bytes of a block" },
		{ "blocks", &blocks.blocks, 1, "blocks of all threads" },
		{ "count", &blocks.count, 1, "kilobytes that each thread reads" },
		{ "own", &blocks.own_percent, 0, "percent of them in its own blocks, at least" },
		{ "seed", &blocks.seed, 0, "of the random places" },
		{ "threads", &threads, 1, "threads" },
	};

	(void)argc;
	blocks.block_bytes = 1792u << 10;
	blocks.blocks = 32;
	blocks.count = 1000000;
	blocks.own_percent = 84;
	WORKLOAD_PARSE(argv, "Read the blocks of a few threads.", options);
	if (blocks.blocks < threads || blocks.own_percent > 100) {
		fputs("--blocks is less than --threads, or --own more than 100\n",
		      stderr);
		return 2;
	}
	blocks.memory = workload_aligned_memory(blocks.blocks * blocks.block_bytes);
	return workload_finish(team_run(threads, visit, &blocks));
}
