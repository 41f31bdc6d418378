/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fault.h"

#include <errno.h>

#include "clock.h"

int fault_time(enum arena_method method, size_t page_bytes, size_t pages, double *fault_ns,
	       double *unmap_ns)
{
	uint64_t start, touched, unmapped;
	struct arena arena;
	int holds;

	if (arena_open(&arena, method, page_bytes, pages) != 0)
		return -1;
	start = clock_ns();
	for (size_t i = 0; i < pages; i++)
		*(volatile char *)(arena.memory + i * page_bytes) = 1;
	touched = clock_ns() - start;
	arena.pages = pages;
	holds = arena_holds(&arena);
	start = clock_ns();
	arena_close(&arena);
	unmapped = clock_ns() - start;
	if (holds != 1) {
		if (holds == 0)
			errno = ENODATA;
		return -1;
	}
	*fault_ns = (double)touched / (double)pages;
	*unmap_ns = (double)unmapped / (double)pages;
	return 0;
}
