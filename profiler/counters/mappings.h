/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which part of which file was at an address of a process, at that time? */
#ifndef TLBCOST_COUNTERS_MAPPINGS_H
#define TLBCOST_COUNTERS_MAPPINGS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "names.h"

/* A part of an address space: [start, end) holds the file from `offset` on. */
struct mapping {
	uint64_t start, end;
	uint64_t offset;	/* bytes */
	uint32_t name;		/* of the names */
};

/* A process with its mappings, sorted and without overlaps. */
struct space {
	struct space *next;	/* of the same hash */
	uint32_t pid;
	uint64_t read;		/* the round in which it was read from /proc, + 1 */
	struct mapping *list;
	size_t count, room;
};

enum { SPACE_HASHES = 1024, ENDED_KEPT = 1024 };

/*
 * The address spaces of all known processes.  Zeroed is empty.  The kernel does not report
 * unmapping, so a mapping remains until something else is mapped there.  Fields are private
 * but `names`.
 */
struct mappings {
	struct names names;
	struct space *spaces[SPACE_HASHES];
	/* Processes that ended: the last samples of their threads come later. */
	uint32_t ended[ENDED_KEPT];
	size_t next_ended;
	uint64_t rounds;
};

/* All functions that change something return 0, or -1 with errno ENOMEM. */

/*
 * Something was mapped: it replaces what was there.  `name` is the kernel's;
 * memory without a file gets one of mapping_name()'s.
 */
int mappings_add(struct mappings *mappings, uint32_t pid,
		 const struct mapping *mapping);

/* The process starts with its parent's mappings; a thread (pid is parent) shares them. */
int mappings_fork(struct mappings *mappings, uint32_t pid, uint32_t parent);

/* The process starts with no mappings. */
int mappings_exec(struct mappings *mappings, uint32_t pid);

/* The process ended; its number may be given to another. */
void mappings_exit(struct mappings *mappings, uint32_t pid);

/*
 * Add the current /proc/PID/maps; nothing if the process cannot be read.  With `code_only`,
 * only what can be executed.
 */
int mappings_read(struct mappings *mappings, uint32_t pid, int code_only);

/*
 * What is at the address; NULL: nothing known.  Addresses slightly below the stack are the
 * stack.  A process that is unknown, or has no mapping there, is looked up in /proc once
 * between two calls of mappings_round(): the kernel does not report what mremap() moves.
 */
const struct mapping *mappings_find(struct mappings *mappings, uint32_t pid,
				    uint64_t address, int code_only);

/*
 * Whether the address is in the bss of the executable: memory without a name that begins where
 * the lowest mapped file ends.
 */
int mappings_is_bss(struct mappings *mappings, uint32_t pid, uint64_t address);

/* A round of buffers begins: unknown processes may be looked up in /proc again. */
void mappings_round(struct mappings *mappings);

/* Forget all processes and names. */
void mappings_free(struct mappings *mappings);

#endif
