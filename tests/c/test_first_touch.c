/* SPDX-License-Identifier: GPL-2.0-or-later */
/* First touches of either page size: all are timed, and base pages are base pages. */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "first_touch.h"

TEST(base_pages_are_touched_one_by_one)
{
	struct first_touches found = { 0 };

	CHECK_EQUAL(first_touches_time(ARENA_BASE, 4096, 2048, 4096, &found), 0);
	CHECK_EQUAL(found.first.count, 2048);
	CHECK_EQUAL(found.huge_bytes, 0);
	CHECK(found.first.median_ns > 0 && found.first.median_ns <= found.first.p99_ns);
	CHECK(found.first.p99_ns <= found.first.p999_ns);
	CHECK(found.first.p999_ns <= found.first.worst_ns);
	CHECK(found.first.total_ns >= found.first.worst_ns + 1023 * found.first.median_ns);
}

/* Each is a fault of its own: the child has the page, too. */
TEST(writes_after_a_fork_copy_pages)
{
	struct first_touches found = { 0 };
	struct rusage before, after;

	getrusage(RUSAGE_SELF, &before);
	CHECK_EQUAL(first_touches_time(ARENA_BASE, 4096, 2048, 4096, &found), 0);
	getrusage(RUSAGE_SELF, &after);
	CHECK_EQUAL(found.forked.count, 2048);
	CHECK(after.ru_minflt - before.ru_minflt >= 2 * 2048);
	CHECK_EQUAL(waitpid(-1, NULL, WNOHANG), -1);
}

TEST(one_page_is_its_own_worst)
{
	struct first_touches found = { 0 };

	CHECK_EQUAL(first_touches_time(ARENA_BASE, 4096, 1, 4096, &found), 0);
	CHECK(found.first.median_ns == found.first.worst_ns && found.first.p999_ns == found.first.worst_ns);
	CHECK_EQUAL(first_touches_time(ARENA_BASE, 4096, 0, 4096, &found), -1);
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
