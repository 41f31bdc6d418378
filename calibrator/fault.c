/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "fault.h"

#include <errno.h>

#include "clock.h"

double fault_ns(enum arena_method method, size_t page_bytes, size_t pages)
{
	struct arena arena;
	uint64_t start;
	int holds;

	if (arena_open(&arena, method, page_bytes, pages) != 0)
		return -1;
	start = clock_ns();
	for (size_t i = 0; i < pages; i++)
		*(volatile char *)(arena.memory + i * page_bytes) = 1;
	start = clock_ns() - start;
	arena.pages = pages;
	holds = arena_holds(&arena);
	arena_close(&arena);
	if (holds != 1) {
		if (holds == 0)
			errno = ENODATA;
		return -1;
	}
	return (double)start / (double)pages;
}
