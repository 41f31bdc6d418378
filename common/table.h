/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How do the programs write the table format of doc/format.md? */
#ifndef TLBCOST_TABLE_H
#define TLBCOST_TABLE_H

#include <stdint.h>
#include <stdio.h>

/* A table being written.  Fields are private. */
struct table {
	FILE *file;
	char *path;		/* final name; NULL for standard output, pipes and devices */
	char *temporary;	/* name until table_close() */
	unsigned long rows;
	unsigned cells;		/* written in the current row */
	unsigned columns;
};

/*
 * Start a table of the given kind.  path is the file to make, or "-" for
 * standard output.  The file appears under its name only when table_close()
 * succeeds; a pipe or a device is written to as it is.  Returns 0, or -1 with
 * errno set.
 */
int table_open(struct table *table, const char *path, const char *kind,
	       unsigned version);

/*
 * Write "# key: value".  Only before table_columns().  Control characters and
 * backslashes are written as \xNN.
 */
void table_key(struct table *table, const char *key, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/* Write the row of column names, separated by single blanks in `names`. */
void table_columns(struct table *table, const char *names);

/* These write the next cell of the current row; the last column ends the row. */

/* A single word: no blanks, tabs or newlines. */
void table_word(struct table *table, const char *word);

/* As a plain decimal integer. */
void table_count(struct table *table, uint64_t count);

/* As 0x... */
void table_hexadecimal(struct table *table, uint64_t number);

/* With three decimals; not finite is NA. */
void table_number(struct table *table, double number);

/* NA: the value was not obtained. */
void table_na(struct table *table);

/*
 * Flush what was written so far to the reader of a pipe, and find out whether that works.
 * Returns 0, or -1 with errno set.
 */
int table_flush(struct table *table);

/*
 * Write the end line and give the file its name.  Returns 0, or -1 with errno
 * of the first write that failed; then neither file remains.
 */
int table_close(struct table *table);

/* Abandon the table: remove what was written so far.  Safe after close. */
void table_discard(struct table *table);

#endif
