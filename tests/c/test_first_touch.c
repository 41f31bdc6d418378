/* SPDX-License-Identifier: GPL-2.0-or-later */
/* First touches of either page size: all are timed, and base pages are base pages. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "first_touch.h"

TEST(base_pages_are_touched_one_by_one)
{
	struct first_touches found = { 0 };

	CHECK_EQUAL(first_touches_time(ARENA_BASE, 4096, 2048, &found), 0);
	CHECK_EQUAL(found.count, 2048);
	CHECK_EQUAL(found.huge_bytes, 0);
	CHECK(found.median_ns > 0 && found.median_ns <= found.p99_ns);
	CHECK(found.p99_ns <= found.p999_ns && found.p999_ns <= found.worst_ns);
}

TEST(one_page_is_its_own_worst)
{
	struct first_touches found = { 0 };

	CHECK_EQUAL(first_touches_time(ARENA_BASE, 4096, 1, &found), 0);
	CHECK(found.median_ns == found.worst_ns && found.p999_ns == found.worst_ns);
	CHECK_EQUAL(first_touches_time(ARENA_BASE, 4096, 0, &found), -1);
}

TEST(a_kernel_without_huge_pages_has_one_row)
{
	char path[] = "/tmp/tlbcost-touch.XXXXXX", line[256];
	unsigned rows = 0;
	FILE *file;

	CHECK(mkstemp(path) >= 0);
	CHECK_EQUAL(first_touches_write(path, 1 << 20, 4096, 0, false), 0);
	file = fopen(path, "r");
	CHECK(file != NULL);
	while (file && fgets(line, sizeof(line), file))
		rows += strncmp(line, "4096\t256\t0\t", 11) == 0;
	CHECK_EQUAL(rows, 1);
	if (file)
		fclose(file);
	remove(path);
	CHECK_EQUAL(first_touches_write("/nowhere/x", 1 << 20, 4096, 0, false), -1);
}

CHECK_MAIN
