/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Write one word of each of --pages fresh pages, once: every access misses
 * every TLB, and every page has its page fault.
 */
#include "workload.h"

int main(int argc, char **argv)
{
	uint64_t pages = 262144;
	const struct workload_option options[] = {
		{ "pages", &pages, 1, "pages of 4 KiB" },
	};
	volatile unsigned char *memory;
	uint64_t sum = 0;

	(void)argc;
	WORKLOAD_PARSE(argv, "Touch fresh pages once.", options);
	memory = workload_aligned_memory(pages * WORKLOAD_PAGE_BYTES);
	for (uint64_t i = 0; i < pages; i++) {
		memory[i * WORKLOAD_PAGE_BYTES] = 1;
		sum += i;
	}
	return workload_finish(sum);
}
