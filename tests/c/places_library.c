/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The part of places.c that is in a shared library. */
#include <stddef.h>

void touch_in_library(char *memory, size_t pages, size_t page_bytes);

void touch_in_library(char *memory, size_t pages, size_t page_bytes)
{
	for (size_t i = 0; i < pages; i++)
		((volatile char *)memory)[i * page_bytes] = 1;
}
