/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is it seen that the program's cgroup, or the machine, has no room for a copy? */
#include "made_up.h"

#include <stdbool.h>

#include "headroom.h"

#define PROGRAM 4711
#define MEBIBYTE (UINT64_C(1) << 20)

/* Plenty of everything, for us and for the program in its container. */
static void plenty(void)
{
	start();
	put("/proc/meminfo", "MemAvailable: 16777216 kB\n");
	put("/proc/self/mountinfo", "1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
	put("/proc/self/cgroup", "0::/ours\n");
	put("/proc/4711/cgroup", "0::/containers/one\n");
	put("/sys/fs/cgroup/ours/memory.max", "max\n");
	put("/sys/fs/cgroup/containers/one/memory.max", "max\n");
	put("/sys/fs/cgroup/containers/one/memory.current", "104857600\n");
	put("/proc/4711/limits", "Max processes 1000000 1000000 processes\n");
	put("/sys/fs/cgroup/containers/pids.max", "max\n");
	put("/sys/fs/cgroup/containers/one/pids.max", "1000\n");
	put("/sys/fs/cgroup/containers/one/pids.current", "10\n");
}

static bool lacks(uint64_t resident_bytes, const char *what)
{
	const char *word = headroom_lacks(PROGRAM, resident_bytes);

	return word && !strcmp(word, what);
}

TEST(where_there_is_plenty_nothing_is_lacking)
{
	plenty();
	CHECK(headroom_lacks(PROGRAM, 100 * MEBIBYTE) == NULL);
	finish();
}

TEST(memory_of_the_machine)
{
	plenty();
	CHECK(lacks(17000 * MEBIBYTE, "refused-memory"));
	finish();
}

TEST(memory_of_the_programs_cgroup_not_of_ours)
{
	plenty();
	put("/sys/fs/cgroup/containers/one/memory.max", "268435456\n");
	CHECK(lacks(100 * MEBIBYTE, "refused-memory"));
	/* Of one that has more than it uses, and more than a copy could. */
	put("/sys/fs/cgroup/containers/one/memory.max", "1073741824\n");
	CHECK(headroom_lacks(PROGRAM, 100 * MEBIBYTE) == NULL);
	/* Our own limit is not the program's. */
	put("/sys/fs/cgroup/ours/memory.max", "1048576\n");
	put("/sys/fs/cgroup/ours/memory.current", "1048576\n");
	CHECK(headroom_lacks(PROGRAM, 100 * MEBIBYTE) == NULL);
	finish();
}

TEST(processes_of_the_cgroup_and_of_those_above)
{
	plenty();
	put("/sys/fs/cgroup/containers/one/pids.max", "20\n");
	CHECK(lacks(MEBIBYTE, "refused-processes"));
	put("/sys/fs/cgroup/containers/one/pids.max", "1000\n");
	put("/sys/fs/cgroup/containers/pids.max", "50\n");
	put("/sys/fs/cgroup/containers/pids.current", "45\n");
	CHECK(lacks(MEBIBYTE, "refused-processes"));
	finish();
}

/* Of the program's user alone, even if we are root. */
TEST(processes_of_the_programs_user)
{
	plenty();
	put("/proc/loadavg", "0.1 0.1 0.1 1/500 4711\n");
	put("/proc/4711/limits", "Max processes 100 100 processes\n");
	put("/proc/4711/status", "Name:\tone\nUid:\t1000\t1000\t1000\t1000\nThreads:\t20\n");
	/* The first process exists on the real machine, too, whose list it is. */
	put("/proc/1/status", "Name:\tmany\nUid:\t1000\t1000\t1000\t1000\nThreads:\t50\n");
	CHECK(headroom_lacks(PROGRAM, MEBIBYTE) == NULL);
	put("/proc/1/status", "Name:\tmany\nUid:\t1000\t1000\t1000\t1000\nThreads:\t90\n");
	CHECK(lacks(MEBIBYTE, "refused-processes"));
	put("/proc/1/status", "Name:\tmany\nUid:\t1001\t1001\t1001\t1001\nThreads:\t90\n");
	CHECK(headroom_lacks(PROGRAM, MEBIBYTE) == NULL);
	put("/proc/4711/status", "Name:\tone\nUid:\t0\t0\t0\t0\nThreads:\t20\n");
	CHECK(headroom_lacks(PROGRAM, MEBIBYTE) == NULL);
	finish();
}

TEST(memory_that_was_promised)
{
	plenty();
	put("/proc/sys/vm/overcommit_memory", "2\n");
	put("/proc/4711/statm", "100000 1000 100 10 0 65536 0\n");
	put("/proc/meminfo", "MemAvailable: 16777216 kB\nCommitLimit: 1048576 kB\n"
			     "Committed_AS: 900000 kB\n");
	CHECK(lacks(MEBIBYTE, "refused-memory"));
	put("/proc/sys/vm/overcommit_memory", "0\n");
	CHECK(headroom_lacks(PROGRAM, MEBIBYTE) == NULL);
	finish();
}

CHECK_MAIN
