/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is a table written as its format says?  Where it cannot be: the tests of who writes it. */
#include "check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "table.h"

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
	char folder[] = "/tmp/test_table.XXXXXX", path[100], text[300] = "";
	struct table table;
	FILE *file;

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

CHECK_MAIN
