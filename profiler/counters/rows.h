/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How are the counters' values written? */
#ifndef TLBCOST_COUNTERS_ROWS_H
#define TLBCOST_COUNTERS_ROWS_H

#include <stdint.h>

#include "group.h"
#include "table.h"

enum scope { SCOPE_PROGRAM, SCOPE_PROCESS, SCOPE_CGROUP, SCOPE_SYSTEM, SCOPE_PROBE };

/* The header of a table of counters. */
struct rows_header {
	enum scope scope;
	enum count_mode mode;
	size_t cpus;		/* 0: those of the program */
	uint64_t duration_ns;	/* 0: not known yet */
	int stopped;		/* the kernel stopped: the program gained privileges */
	int has_uncounted;
	uint64_t uncounted_ns;	/* CPU time of the program without counting */
	size_t missed_threads;	/* at most this many of the process are not counted */
};

/* Write the header of a table that was opened as counters 1, and its columns. */
void rows_header(struct table *table, const struct bank *bank,
		 const struct rows_header *header);

/*
 * Write one row for each member: values[] minus before[] (NULL: nothing), at
 * end_ns since counting began.  A value of NULL: nothing was counted.
 * stopped: the counts are incomplete and not valid.
 */
void rows_write(struct table *table, const struct bank *bank, uint64_t end_ns,
		const struct counter_value *values, const struct counter_value *before,
		int stopped);

/* "counted", "multiplexed" or "never_ran". */
const char *value_state(const struct counter_value *value, int is_part);

#endif
