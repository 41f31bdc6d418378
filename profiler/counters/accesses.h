/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which thread accessed which memory on which CPU, sample by sample? */
#ifndef TLBCOST_COUNTERS_ACCESSES_H
#define TLBCOST_COUNTERS_ACCESSES_H

#include <stddef.h>
#include <stdint.h>

#include "table.h"

struct access {
	uint64_t address;	/* of the data */
	uint64_t weight;	/* events that the sample stands for */
	const char *level;	/* as memory_level_name() gives it */
	uint32_t event;		/* number of the event */
	uint32_t tid, cpu;
};

/* Zeroed is empty.  Fields are private. */
struct accesses {
	struct access *list;
	size_t room, count;
};

/* Returns 0, or -1 with errno ENOMEM: it is then not kept. */
int accesses_add(struct accesses *accesses, const struct access *access);

/* Write columns and rows, in the order in which they were added. */
void accesses_write(const struct accesses *accesses, const char *const *event_names,
		    struct table *table);

/* Forget all: zeroed again. */
void accesses_free(struct accesses *accesses);

#endif
