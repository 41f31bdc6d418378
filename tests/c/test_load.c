/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is it found, and written, how much of the time others took from us? */
#include "made_up.h"

#include "load.h"

TEST(from_a_kernel_that_tells)
{
	struct load load;

	start();
	put("/proc/thread-self/schedstat", "7000 3000 12\n");
	put("/proc/stat", "cpu  9 9 9 9 9 9 9 9 9 9\n"
			  "cpu1 1 2 3 4 5 6 7 50 0 0\ncpu11 1 2 3 4 5 6 7 90 0 0\nintr 1\n");
	load = load_now(1);
	CHECK_EQUAL(load.ran_ns, 7000);
	CHECK_EQUAL(load.waited_ns, 3000);
	CHECK_EQUAL(load.stolen_ns, 50 * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK)));
	CHECK_EQUAL(load_now(11).stolen_ns, 90 * (1000000000u / (uint64_t)sysconf(_SC_CLK_TCK)));
	CHECK(load_now(2).stolen_ns == LOAD_UNKNOWN);
	finish();
}

TEST(from_one_that_does_not)
{
	struct load load;

	start();
	load = load_now(0);
	CHECK(load.waited_ns == LOAD_UNKNOWN && load.stolen_ns == LOAD_UNKNOWN);
	/* Without CONFIG_SCHED_INFO the file is there, with zeros; before 2.6.11 no steal. */
	put("/proc/thread-self/schedstat", "0 0 0\n");
	put("/proc/stat", "cpu0 1 2 3 4 5 6 7\n");
	load = load_now(0);
	CHECK(load.waited_ns == LOAD_UNKNOWN && load.stolen_ns == LOAD_UNKNOWN);
	finish();
}

TEST(what_is_unknown_is_na)
{
	struct load before = { 100, 10, 20, 3, LOAD_UNKNOWN };
	struct load after = { 400, 110, LOAD_UNKNOWN, 5, 70 };
	char path[] = "/tmp/tlbcost-test-XXXXXX", text[512] = "";
	int fd = mkstemp(path);
	struct table table;
	FILE *file;

	CHECK(fd >= 0);
	close(fd);
	CHECK_EQUAL(table_open(&table, path, "samples", 2), 0);
	load_write(&before, &after, &table);
	table_columns(&table, "probe");
	CHECK_EQUAL(table_close(&table), 0);
	file = fopen(path, "re");
	if (file) {
		CHECK(fread(text, 1, sizeof(text) - 1, file) > 0);
		fclose(file);
	}
	CHECK(strstr(text, "# measured_ns: 300\n# ran_ns: 100\n# waited_ns: NA\n"
			   "# switches: 2\n# stolen_ns: NA\n") != NULL);
	unlink(path);
}

CHECK_MAIN
