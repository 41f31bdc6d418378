/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which memory of a program do its children not get (MADV_DONTFORK)?  V8's heap, for example. */
#ifndef TLBCOST_COPIES_UNFORKED_MEMORY_H
#define TLBCOST_COPIES_UNFORKED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct memory_range {
	uint64_t start, end;
};

struct unforked_memory {
	struct memory_range *ranges;
	size_t count, capacity;
};

/* Whether memory of the program has nothing at its place in the copy. */
bool unforked_memory_lacks(pid_t process, pid_t thread, pid_t copy);

/*
 * Find it, except for devices' memory.  Takes as long as the kernel needs to look at all pages.
 * Returns 0, or -1 with errno; unforked_memory_free() in both cases.
 */
int unforked_memory_read(pid_t process, pid_t thread, struct unforked_memory *memory);
void unforked_memory_free(struct unforked_memory *memory);

#endif
