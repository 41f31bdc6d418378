/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How often did the counters overflow at each place? */
#ifndef TLBCOST_COUNTERS_HITS_H
#define TLBCOST_COUNTERS_HITS_H

#include <stddef.h>
#include <stdint.h>

#include "names.h"
#include "parse.h"
#include "table.h"

/* A place, and what its samples have in common. */
struct hit {
	uint32_t event;		/* number of the event */
	uint32_t pid;
	uint32_t object;	/* a name, or NO_NAME: outside all mappings */
	uint32_t data;		/* a name, or NO_NAME: no address */
	uint64_t offset;	/* in the object's file, or the address */
	enum record_mode mode;
	const char *data_tlb;	/* as data_tlb_name() gives it */
	uint64_t samples, weight;
};

/* Zeroed is empty.  Fields are private but `list` and `count`. */
struct hits {
	struct hit *list;	/* hash table: those without samples are empty */
	size_t room, count;
};

/*
 * One more sample at this place, which stands for `hit->weight` events.
 * Returns 0, or -1 with errno ENOMEM: it is then not counted.
 */
int hits_add(struct hits *hits, const struct hit *hit);

/*
 * Write the names that hits refer to as header keys `object_<n>`, `data_<n>` and
 * `build_id_<n>`, then columns and rows: by event, most events first.  This sorts the hits,
 * and no more can be added.  Returns 0, or -1 with errno ENOMEM.
 */
int hits_write(struct hits *hits, const struct names *names,
	       const char *const *event_names, struct table *table);

/* Forget all hits: zeroed again. */
void hits_free(struct hits *hits);

#endif
