/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What happened to each copy: the table of kind copies. */
#ifndef TLBCOST_COPIES_TABLE_H
#define TLBCOST_COPIES_TABLE_H

#include <stddef.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "budget.h"
#include "injector.h"

#define COPIES_UNKNOWN UINT64_MAX

/* An instant that was drawn.  COPIES_UNKNOWN: not obtained. */
struct copies_row {
	uint32_t window;
	pid_t pid, tid;			/* 0: not known */
	uint64_t at_ns, at_cpu_ns;	/* since the start; of the program's CPU time */
	uint64_t stands_for_ns;		/* length of its stratum: budget.h */
	uint64_t user_ns;		/* of it, in user mode, roughly */
	const char *result;
	bool given;			/* to a worker */
	int error;			/* errno; 0: none */
	uint64_t pause_ns, clone_ns, restarted, rewound, rseq_aborted;
	uint64_t resident_bytes, faults, lived_ns, recorded;
	uint64_t added_faults;		/* those that the copy caused, roughly */
};

/* Zeroed is empty. */
struct copies_rows {
	struct copies_row *all;
	size_t count, capacity;
};

/* What the table's header says of all of it. */
struct copies_summary {
	pid_t pid;
	const char *program;		/* its name; NULL: not known */
	const char *state;		/* a word: "good", or why there are no more copies */
	const struct budget *budget;
	uint64_t seed, wall_ns, cpu_ns, threads_seen, processes_seen;
	uint32_t workers, lost_workers;
};

/* A new row, all of it unknown.  Returns its index; or -1 with errno ENOMEM. */
ssize_t copies_rows_add(struct copies_rows *rows, uint32_t window);
void copies_rows_free(struct copies_rows *rows);

/* The word for why there is no copy. */
const char *copies_refusal(enum injector_refusal refusal);

/* Write folder/copies.tsv, or copies.N.tsv if `first` is N > 0.  Returns 0, or -1 with errno. */
int copies_table_write(const struct copies_rows *rows, const struct copies_summary *summary,
		       const char *folder, uint32_t first);

#endif
