/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "table.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A pipe or a device: renaming a file to its name would replace it, as root also /dev/null. */
static int is_special(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && !S_ISREG(status.st_mode);
}

static void release(struct table *table)
{
	free(table->path);
	free(table->temporary);
	memset(table, 0, sizeof(*table));
}

int table_open(struct table *table, const char *path, const char *kind,
	       unsigned version)
{
	int error;

	memset(table, 0, sizeof(*table));
	if (strcmp(path, "-") == 0) {
		table->file = stdout;
	} else if (is_special(path)) {
		table->file = fopen(path, "we");
		if (!table->file)
			return -1;
	} else {
		table->path = strdup(path);
		if (!table->path ||
		    asprintf(&table->temporary, "%s.%ld", path, (long)getpid()) < 0) {
			table->temporary = NULL;
			release(table);
			errno = ENOMEM;
			return -1;
		}
		table->file = fopen(table->temporary, "we");
		if (!table->file) {
			error = errno;
			release(table);
			errno = error;
			return -1;
		}
	}
	fprintf(table->file, "# tlbcost %s %u\n", kind, version);
	return 0;
}

/* A path may hold any byte: what would end the line, and the escape itself, as \xNN. */
static void put_text(FILE *file, const char *text)
{
	for (const unsigned char *c = (const unsigned char *)text; *c; c++)
		if (*c < ' ' || *c == 0x7f || *c == '\\')
			fprintf(file, "\\x%02x", *c);
		else
			putc(*c, file);
}

void table_key(struct table *table, const char *key, const char *format, ...)
{
	va_list args;
	char *value;
	int length;

	va_start(args, format);
	length = vasprintf(&value, format, args);
	va_end(args);
	if (length < 0)
		return;
	fprintf(table->file, "# %s: ", key);
	put_text(table->file, value);
	putc('\n', table->file);
	free(value);
}

void table_columns(struct table *table, const char *names)
{
	table->columns = 1;
	for (const char *c = names; *c; c++) {
		if (*c == ' ')
			table->columns++;
		putc(*c == ' ' ? '\t' : *c, table->file);
	}
	putc('\n', table->file);
}

static void end_cell(struct table *table)
{
	if (++table->cells < table->columns) {
		putc('\t', table->file);
		return;
	}
	putc('\n', table->file);
	table->cells = 0;
	table->rows++;
}

void table_word(struct table *table, const char *word)
{
	fputs(word, table->file);
	end_cell(table);
}

void table_count(struct table *table, uint64_t count)
{
	fprintf(table->file, "%llu", (unsigned long long)count);
	end_cell(table);
}

void table_hexadecimal(struct table *table, uint64_t number)
{
	fprintf(table->file, "0x%llx", (unsigned long long)number);
	end_cell(table);
}

void table_number(struct table *table, double number)
{
	if (isfinite(number))
		fprintf(table->file, "%.3f", number);
	else
		fputs("NA", table->file);
	end_cell(table);
}

void table_na(struct table *table)
{
	table_word(table, "NA");
}

int table_flush(struct table *table)
{
	/* A full disk may show at any write, or only when flushed. */
	if (fflush(table->file) != 0)
		return -1;
	errno = EIO;
	return ferror(table->file) ? -1 : 0;
}

int table_close(struct table *table)
{
	int error = 0;

	fprintf(table->file, "# end: %lu\n", table->rows);
	if (table_flush(table) < 0)
		error = errno;
	if (table->path) {
		if (fclose(table->file) != 0 && !error)
			error = errno;
		if (!error && rename(table->temporary, table->path) != 0)
			error = errno;
		if (error)
			unlink(table->temporary);
	} else if (table->file != stdout && fclose(table->file) != 0 && !error) {
		error = errno;
	}
	release(table);
	if (error) {
		errno = error;
		return -1;
	}
	return 0;
}

void table_discard(struct table *table)
{
	if (table->path) {
		fclose(table->file);
		unlink(table->temporary);
	} else if (table->file && table->file != stdout) {
		fclose(table->file);
	}
	release(table);
}
