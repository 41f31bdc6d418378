/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Are the threads of a process, the CPUs and a cgroup found as the system tells them? */
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "made_up.h"
#include "targets.h"

static const char online[] = "/sys/devices/system/cpu/online";
static const char mounts[] = "/proc/self/mounts";

TEST(cpus_are_listed)
{
	static const struct {
		const char *text;
		size_t count;
		int last;
	} cases[] = {
		{ "0\n", 1, 0 }, { "0-3\n", 4, 3 }, { "0-1,4,8-9\n", 5, 9 },
		{ "", 0, 0 }, { "\n", 0, 0 }, { "x\n", 0, 0 }, { "3-1\n", 0, 0 }, { "1-\n", 0, 0 },
		{ "0,\n", 0, 0 }, { "0-99999999999\n", 0, 0 }, { "-3\n", 0, 0 },
	};

	start();
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct numbers cpus;

		put(online, cases[i].text);
		CHECK_EQUAL(targets_cpus(&cpus), cases[i].count ? 0 : -1);
		CHECK_EQUAL(cpus.count, cases[i].count);
		if (cpus.count)
			CHECK_EQUAL(cpus.at[cpus.count - 1], cases[i].last);
		numbers_free(&cpus);
	}
	finish();
}

TEST(cgroups_are_found_below_their_mount)
{
	char text[500];
	int fd;

	start();
	put("/version1/a/tasks", "");
	put("/version2/b/cgroup.procs", "");
	snprintf(text, sizeof(text), "x %s/version2 cgroup2 rw 0 0\n", root);
	put(mounts, text);
	fd = targets_cgroup("b");
	CHECK(fd >= 0);
	close(fd);
	CHECK_EQUAL(targets_cgroup("a"), -1);
	/* Version 1 has the counters where it has the controller. */
	snprintf(text, sizeof(text),
		 "x %s/version2 cgroup2 rw 0 0\nx %s/none cgroup rw,cpu 0 0\n"
		 "x %s/version1 cgroup rw,relatime,perf_event 0 0\n", root, root, root);
	put(mounts, text);
	fd = targets_cgroup("a");
	CHECK(fd >= 0);
	close(fd);
	CHECK_EQUAL(targets_cgroup("b"), -1);
	CHECK_EQUAL(errno, ENOENT);
	put(mounts, "");
	CHECK_EQUAL(targets_cgroup("a"), -1);
	CHECK_EQUAL(errno, ENOENT);
	fd = targets_cgroup(root);
	CHECK(fd >= 0);
	close(fd);
	finish();
}

static void *wait_at(void *barrier)
{
	pthread_barrier_wait(barrier);
	return NULL;
}

TEST(threads_are_listed)
{
	struct numbers one, two;
	pthread_barrier_t barrier;
	pthread_t thread;

	pthread_barrier_init(&barrier, NULL, 2);
	CHECK_EQUAL(targets_threads(&one, getpid()), 0);
	CHECK(one.count >= 1);
	CHECK_EQUAL(pthread_create(&thread, NULL, wait_at, &barrier), 0);
	CHECK_EQUAL(targets_threads(&two, getpid()), 0);
	CHECK_EQUAL(two.count, one.count + 1);
	CHECK(numbers_include(&two, &one));
	CHECK(!numbers_include(&one, &two));
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	numbers_free(&one);
	numbers_free(&two);
	CHECK_EQUAL(targets_threads(&one, 0x3fffffff), -1);
	CHECK_EQUAL(errno, ESRCH);
}

CHECK_MAIN
