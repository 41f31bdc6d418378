/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is mapped in a process? */
#ifndef TLBCOST_COPIES_MAPPINGS_H
#define TLBCOST_COPIES_MAPPINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* One line of /proc/PID/maps. */
struct mapping {
	uint64_t start, end, offset;	/* bytes */
	uint32_t major, minor;		/* the file's device */
	uint64_t inode;			/* 0: no file */
	bool readable, writable, executable, shared;
	char *name;			/* never NULL; "" if it has none */
};

/* In the order of addresses. */
struct mappings {
	struct mapping *all;
	size_t count;
};

/* Returns 0; or -1 with errno, and *mappings is empty. */
int mappings_read(struct mappings *mappings, pid_t pid);
void mappings_free(struct mappings *mappings);

/* The one that holds the address, or NULL. */
const struct mapping *mappings_find(const struct mappings *mappings, uint64_t address);

#endif
