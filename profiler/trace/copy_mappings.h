/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is mapped in a process? */
#ifndef TLBCOST_TRACE_COPY_MAPPINGS_H
#define TLBCOST_TRACE_COPY_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* One line of /proc/PID/maps. */
struct copy_mapping {
	uint64_t start, end, offset;	/* bytes */
	uint32_t major, minor;		/* the file's device */
	uint64_t inode;			/* 0: no file */
	bool readable, writable, executable, shared;
	char *name;			/* never NULL; "" if it has none */
};

/* In the order of addresses. */
struct copy_mappings {
	struct copy_mapping *all;
	size_t count;
};

/* Returns 0; or -1 with errno, and *mappings is empty. */
int copy_mappings_read(struct copy_mappings *mappings, pid_t pid);
void copy_mappings_free(struct copy_mappings *mappings);

/* The one that holds the address, or NULL. */
const struct copy_mapping *copy_mappings_find(const struct copy_mappings *mappings,
					      uint64_t address);

#endif
