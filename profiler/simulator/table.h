/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How are tables written?  A process image leaves its tables in --counts-dir,
 * each in <kind>.<process ID>.<image>.tsv: doc/format.md.
 */
#ifndef TLBSIM_TABLE_H
#define TLBSIM_TABLE_H

#include "misses.h"

#include "pub_tool_basics.h"
#include "pub_tool_libcprint.h"

/*
 * A new process image: claim a number for it, by a new file of this kind.
 * Where that fails, which is complained about, no table is written.
 */
void table_claim(const HChar *kind);

/* What the header says of the process. */
struct table_header {
	const HChar *kind, *state;
	Bool parent;			/* name the parent process, too */
	const HChar *executable;	/* that a script's interpreter is; NULL: no such line */
};

/* A table with its header; NULL: it cannot be written, which is complained about. */
VgFile *table_open(struct table_header header);

/* The lines of the header that name the sizes of base and huge pages. */
void table_page_sizes(VgFile *file);

/* A row for the counts of each side, which begins with this number. */
void table_counts(VgFile *file, ULong number,
		  const struct tlb_counts counts[TLB_SIDES]);

/* Two cells. */
void table_misses(VgFile *file, const struct misses *misses);

/* Write how many rows there were, and close the file. */
void table_close(VgFile *file, ULong rows);

/* Close the file of a process that still runs: there are no rows, not even 0 of them. */
void table_close_empty(VgFile *file);

#endif
