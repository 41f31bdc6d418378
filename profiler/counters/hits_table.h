/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How does a table, of hits or of accesses, show what was recorded, and how completely? */
#ifndef TLBCOST_COUNTERS_HITS_TABLE_H
#define TLBCOST_COUNTERS_HITS_TABLE_H

#include "profile.h"
#include "record_options.h"

struct hits_table {
	const struct sampler *sampler;
	struct profile *profile;	/* its hits are sorted */
	const struct record_options *options;
	uint64_t duration_ns;
};

/*
 * Find out whether a table can be written to the path ("-": standard output),
 * and leave nothing behind: a killed recording leaves nothing.
 * Returns 0, or -1 with errno.
 */
int hits_table_try(const char *path);

/* Write the table.  Returns 0; or -1 with errno and no table. */
int hits_table_write(const struct hits_table *table, const char *path);

#endif
