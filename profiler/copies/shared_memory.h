/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Isolation of a copy from memory that it shares with others, before its first instruction.  Shared
 * memory that could be written, whatever its protection is, becomes private memory with the same
 * content; what cannot be read through the kernel (a device's) is unmapped.  Only mappings of files
 * that were opened for reading stay: the kernel lets nobody write through them.
 */
#ifndef TLBCOST_COPIES_SHARED_MEMORY_H
#define TLBCOST_COPIES_SHARED_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "copy.h"

/* A mapping that was shared. */
struct shared_range {
	uint64_t start, end;
	int protection;
	/* Its content, read-only and out of the copy's reach; 0 if that is not needed. */
	uint64_t shadow;
	uint8_t *filled;	/* a byte for each chunk that was copied */
	bool has_holes;		/* tmpfs and the like: reading a hole would allocate it */
};

struct shared_memory {
	struct shared_range *all;
	size_t count;
};

/*
 * `lazily`: content is copied when it is first accessed, by shared_memory_fill(); else at once, up
 * to a GiB a mapping, and larger ones are unmapped.  `registers` are those of the stopped copy.
 * Returns 0; or -1 with errno, and the copy must not run.  shared_memory_free() in both cases.
 */
int shared_memory_isolate(struct shared_memory *memory, struct copy *copy,
			  const struct user_regs_struct *registers, bool lazily);
void shared_memory_free(struct shared_memory *memory);

/* Whether a byte of [start, start + bytes), or the one at start, was shared. */
bool shared_memory_overlaps(const struct shared_memory *memory, uint64_t start, uint64_t bytes);

/*
 * Copy the content of [start, start + bytes) where that is still to be done.  Returns whether
 * anything was copied; or -1 with errno.
 */
int shared_memory_fill(struct shared_memory *memory, struct copy *copy,
		       const struct user_regs_struct *registers, uint64_t start, uint64_t bytes);

#endif
