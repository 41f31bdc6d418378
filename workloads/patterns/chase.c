/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Follow a random ring through every cache line of --size bytes.  Each step needs the data of
 * the one before, so each page walk is serialized.
 */
#include "workload.h"

struct line {
	struct line *next;
	char rest[WORKLOAD_LINE_BYTES - sizeof(struct line *)];
};

/* Sattolo's shuffle: one ring through all lines, each ring equally likely. */
static void make_ring(struct line *lines, uint64_t n, uint64_t seed)
{
	uint64_t state = workload_seed(seed);

	for (uint64_t i = 0; i < n; i++)
		lines[i].next = &lines[i];
	for (uint64_t i = n - 1; i > 0; i--) {
		uint64_t j = workload_below(workload_random(&state), i);
		struct line *next = lines[i].next;

		lines[i].next = lines[j].next;
		lines[j].next = next;
	}
}

int main(int argc, char **argv)
{
	uint64_t size = 64u << 20, count = 15000000, seed = 1;
	const struct workload_option options[] = {
		{ "count", &count, 0, "steps" },
		{ "seed", &seed, 0, "of the ring" },
		{ "size", &size, WORKLOAD_LINE_BYTES, "bytes of the ring" },
	};
	struct line *lines, *line;
	uint64_t n;

	(void)argc;
	WORKLOAD_PARSE(argv, "Follow a random ring of cache lines.", options);
	n = size / sizeof(*lines);
	workload_at_most_32_bits(n);
	lines = workload_aligned_memory(n * sizeof(*lines));
	make_ring(lines, n, seed);
	line = lines;
	for (uint64_t i = 0; i < count; i++)
		line = line->next;
	return workload_finish((uint64_t)(line - lines));
}
