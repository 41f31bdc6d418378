/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How are tables written?  A process image writes its tables to --counts-dir,
 * each in <kind>.<process ID>.<image>.tsv: doc/format.md.
 */
#ifndef TLBSIM_TABLE_H
#define TLBSIM_TABLE_H

#include "misses.h"

#include "pub_tool_basics.h"
#include "pub_tool_libcprint.h"

/*
 * A new process image: take a number for it by creating a new file of this kind.  If that
 * fails, there is a message and no table is written.
 */
void table_claim(const HChar *kind);

/* What the header says about the process. */
struct table_header {
	const HChar *kind, *state;
	Bool parent;			/* name the parent process, too */
	const HChar *executable;	/* that a script's interpreter is; NULL: no such line */
};

/* Write a path and end the line: control characters and backslashes as \xNN. */
void table_text(VgFile *file, const HChar *text);

/* A table with its header; NULL, with a message: it cannot be written. */
VgFile *table_open(struct table_header header);

/* The lines of the header that name the sizes of base and huge pages. */
void table_page_sizes(VgFile *file);

/* A row for the counts of each side, which begins with this number. */
void table_counts(VgFile *file, ULong number,
		  const struct tlb_counts counts[TLB_SIDES]);

/* Two cells. */
void table_misses(VgFile *file, const struct misses *misses);

/* Write the number of rows, and close the file. */
void table_close(VgFile *file, ULong rows);

/* Close the file of a process that is still running: without rows and without their number. */
void table_close_empty(VgFile *file);

#endif
