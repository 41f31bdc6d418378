/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is a table complete under its name, or not there at all? */
#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "table.h"

static char folder[] = "/tmp/test_table.XXXXXX";

static void fill(struct table *table, int rows)
{
	table_key(table, "name", "two\nlines\\");
	table_columns(table, "a b c");
	for (int i = 0; i < rows; i++) {
		table_count(table, 18446744073709551615u);
		table_number(table, i == 0 ? (double)NAN : 1.5);
		table_na(table);
	}
}

TEST(writes_the_format)
{
	static const char expected[] =
		"# tlbcost test 3\n# name: two\\x0alines\\x5c\na\tb\tc\n"
		"18446744073709551615\tNA\tNA\n18446744073709551615\t1.500\tNA\n# end: 2\n";
	char path[100], text[300] = "";
	struct table table;
	FILE *file;

	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/t.tsv", folder);
	CHECK_EQUAL(table_open(&table, path, "test", 3), 0);
	fill(&table, 2);
	CHECK_EQUAL(access(path, F_OK), -1);
	CHECK_EQUAL(table_close(&table), 0);
	file = fopen(path, "r");
	CHECK(file != NULL);
	if (file) {
		CHECK(fread(text, 1, sizeof(text) - 1, file) > 0);
		fclose(file);
	}
	CHECK(strcmp(text, expected) == 0);
	unlink(path);
	CHECK_EQUAL(rmdir(folder), 0);
}

TEST(discards)
{
	struct table table;
	char path[100];

	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/t.tsv", folder);
	CHECK_EQUAL(table_open(&table, path, "test", 1), 0);
	fill(&table, 1);
	table_discard(&table);
	table_discard(&table);
	/* Nothing is left, under either name. */
	CHECK_EQUAL(rmdir(folder), 0);
}

TEST(no_folder)
{
	struct table table;

	CHECK_EQUAL(table_open(&table, "/nonexistent/t.tsv", "test", 1), -1);
	CHECK_EQUAL(errno, ENOENT);
}

TEST(full_disk)
{
	struct table table;
	int saved = dup(STDOUT_FILENO), rc, error;

	fflush(stdout);
	CHECK(freopen("/dev/full", "w", stdout) != NULL);
	rc = table_open(&table, "-", "test", 1);
	fill(&table, 5000);
	errno = 0;
	rc |= table_close(&table) == -1 ? 2 : 0;
	error = errno;
	clearerr(stdout);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	CHECK_EQUAL(rc, 2);
	CHECK(error == ENOSPC || error == EIO);
}

TEST(pipes_stay_pipes)
{
	struct table table;
	struct stat status;
	char path[100], text[300] = "";
	int reader;

	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	CHECK(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/pipe", folder);
	CHECK_EQUAL(mkfifo(path, 0600), 0);
	reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	CHECK_EQUAL(table_open(&table, path, "test", 3), 0);
	fill(&table, 2);
	CHECK_EQUAL(table_close(&table), 0);
	CHECK(read(reader, text, sizeof(text) - 1) > 0);
	CHECK(strstr(text, "# end: 2\n") != NULL);
	CHECK(stat(path, &status) == 0 && S_ISFIFO(status.st_mode));
	close(reader);
	unlink(path);
	CHECK_EQUAL(rmdir(folder), 0);
}

CHECK_MAIN
