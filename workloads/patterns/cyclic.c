/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Read one word of each of --pages pages in order, --rounds times.  A TLB that
 * forgets the least recently used page misses every time once the pages are
 * more than its entries.
 */
#include "workload.h"

int main(int argc, char **argv)
{
	uint64_t pages = 4096, rounds = 20000;
	const struct workload_option options[] = {
		{ "pages", &pages, 1, "pages of 4 KiB" },
		{ "rounds", &rounds, 0, "times that each is read" },
	};
	volatile unsigned char *memory;
	uint64_t sum = 0;

	(void)argc;
	WORKLOAD_PARSE(argv, "Read pages in order, again and again.", options);
	memory = workload_aligned_memory(pages * WORKLOAD_PAGE_BYTES);
	for (uint64_t i = 0; i < pages * WORKLOAD_PAGE_BYTES;
	     i += WORKLOAD_PAGE_BYTES)
		memory[i] = (unsigned char)(i >> 12);
	for (uint64_t round = 0; round < rounds; round++)
		for (uint64_t i = 0; i < pages; i++)
			/* Another line in each page: else all fall into one cache set. */
			sum += memory[i * WORKLOAD_PAGE_BYTES +
				      i % 64 * WORKLOAD_LINE_BYTES] + i;
	return workload_finish(sum);
}
