/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Are counters opened on what was requested, grouped as they fit, and reported as they are? */
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "group.h"
#include "rows.h"
#include "sysfile.h"

enum { PAGES = 200 };

static struct event software(const char *name, uint64_t config)
{
	return (struct event){
		.name = name,
		.encoding = { .type = PERF_TYPE_SOFTWARE, .config = config },
	};
}

static void touch_pages(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	volatile char *bytes = mmap(NULL, PAGES * page, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (bytes == MAP_FAILED)
		return;
	madvise((void *)bytes, PAGES * page, MADV_NOHUGEPAGE);
	for (size_t i = 0; i < PAGES; i++)
		bytes[i * page] = 1;
	munmap((void *)bytes, PAGES * page);
}

static int open_files(void)
{
	DIR *folder = opendir("/proc/self/fd");
	int count = 0;

	while (folder && readdir(folder))
		count++;
	if (folder)
		closedir(folder);
	return count;
}

static const struct open_target self = { .pid = 0, .cpu = -1 };

/* Open them on this thread, let them see some pages, read.  Returns bank_open()'s. */
static int count_self(struct bank *bank, const struct event *events, size_t count,
		      struct counter_value *values)
{
	int rc = bank_open(bank, events, count, &self, 1);

	if (rc < 0)
		return rc;
	CHECK_EQUAL(bank_start(bank), 0);
	touch_pages();
	CHECK_EQUAL(bank_stop(bank), 0);
	touch_pages();
	CHECK_EQUAL(bank_read(bank, values), 0);
	return 0;
}

TEST(software_events_share_a_group)
{
	struct event events[] = {
		software("faults", PERF_COUNT_SW_PAGE_FAULTS),
		software("clock", PERF_COUNT_SW_TASK_CLOCK),
		software("minor", PERF_COUNT_SW_PAGE_FAULTS_MIN),
		{ .name = "unknown", .encode_error = ENOENT },
		software("none", 1000000),
	};
	struct counter_value values[5];
	/* Even one programmable counter holds them all: they need none. */
	struct bank bank = { .room = 1 };
	int before = open_files();

	if (count_self(&bank, events, 5, values) < 0) {
		bank_close(&bank);
		CHECK_SKIP("the kernel refuses perf_event_open");
	}
	CHECK_EQUAL(bank.member_count, 5);
	CHECK_EQUAL(bank.group_count, 1);
	for (int i = 0; i < 3; i++) {
		CHECK_EQUAL(bank.members[i].group, 0);
		CHECK(member_is_open(&bank, &bank.members[i]));
		CHECK_EQUAL(values[i].enabled_ns, values[0].enabled_ns);
		CHECK(strcmp(value_state(&values[i], 0), "counted") == 0);
	}
	/* What came after it was stopped is not in it. */
	CHECK(values[0].count >= PAGES && values[0].count < 2 * PAGES);
	CHECK(values[2].count >= PAGES && values[2].count <= values[0].count);
	CHECK(!member_is_open(&bank, &bank.members[3]));
	CHECK(!member_is_open(&bank, &bank.members[4]));
	CHECK_EQUAL(bank.members[4].error, ENOENT);
	bank_close(&bank);
	CHECK_EQUAL(open_files(), before);
}

TEST(nothing_to_open_is_an_error)
{
	struct event events[] = {
		{ .name = "no source", .encoding = { .type = 999999 } },
		{ .name = "unknown", .encode_error = ENOENT },
	};
	struct bank bank = { 0 };

	CHECK_EQUAL(bank_open(&bank, events, 2, &self, 1), -1);
	CHECK_EQUAL(errno, bank.members[0].error);
	CHECK(bank.members[0].error != 0);
	CHECK_EQUAL(bank.group_count, 0);
	bank_close(&bank);
	CHECK_EQUAL(bank.member_count, 0);
}

/* Event sources of a CPU: they neither join each other's groups, nor wait for them. */
TEST(room_is_what_one_group_has)
{
	struct encoding tsc = { 0 };
	uint64_t type;

	if (sysfile_number(&type, "/sys/bus/event_source/devices/msr/type") < 0)
		CHECK_SKIP("no event source msr");
	tsc.type = (uint32_t)type;

	const struct event events[] = {
		{ .name = "a", .encoding = tsc }, { .name = "b", .encoding = tsc },
		{ .name = "fixed", .encoding = tsc, .is_fixed = 1 },
		software("faults", PERF_COUNT_SW_PAGE_FAULTS),
	};
	struct counter_value values[8];
	struct bank bank = { .room = 1 };

	if (count_self(&bank, events, 4, values) < 0) {
		bank_close(&bank);
		CHECK_SKIP("the kernel refuses to count msr");
	}
	CHECK_EQUAL(bank.group_count, 1);
	CHECK(bank.members[1].is_left_over);
	CHECK(!member_is_open(&bank, &bank.members[1]));
	CHECK_EQUAL(bank.members[2].group, 0);
	CHECK_EQUAL(bank.members[3].group, 0);
	bank_close(&bank);

	bank.multiplex = 1;
	CHECK_EQUAL(count_self(&bank, events, 4, values), 0);
	CHECK_EQUAL(bank.group_count, 2);
	CHECK_EQUAL(bank.members[1].group, 1);
	/* The copy of the first event. */
	CHECK_EQUAL(bank.member_count, 5);
	CHECK(bank.members[4].event == &events[0]);
	CHECK_EQUAL(bank.members[4].group, 1);
	CHECK(values[4].count > 0);
	bank_close(&bank);
}

TEST(targets_that_ended_are_left_out)
{
	struct event events[] = { software("faults", PERF_COUNT_SW_PAGE_FAULTS) };
	/* No thread has the largest number. */
	const struct open_target targets[] = { self, { .pid = 0x3fffffff, .cpu = -1 } };
	const struct open_target wrong[] = { self, { .pid = 0, .cpu = 1 << 20 } };
	struct bank bank = { 0 };

	if (bank_open(&bank, events, 1, &self, 1) < 0) {
		bank_close(&bank);
		CHECK_SKIP("the kernel refuses perf_event_open");
	}
	bank_close(&bank);
	CHECK_EQUAL(bank_open(&bank, events, 1, targets, 2), 0);
	CHECK(member_is_open(&bank, &bank.members[0]));
	bank_close(&bank);
	/* Refused on one for another reason: the count of the others would be too small. */
	CHECK_EQUAL(bank_open(&bank, events, 1, wrong, 2), -1);
	CHECK_EQUAL(errno, EINVAL);
	bank_close(&bank);
}

TEST(values_have_states)
{
	static const struct {
		int line;
		uint64_t enabled_ns, running_ns;
		const char *whole, *part;
	} cases[] = {
#define STATE(...) { __LINE__, __VA_ARGS__ }
		STATE(1000000, 1000000, "counted", "counted"),
		STATE(1000000, 999500, "counted", "counted"),
		STATE(1000000, 990000, "multiplexed", "multiplexed"),
		STATE(1000000, 1, "multiplexed", "multiplexed"),
		STATE(1000000, 0, "never_ran", "never_ran"),
		STATE(1, 1, "counted", "counted"),
		/* A program that slept all along did nothing in this part. */
		STATE(0, 0, "never_ran", "counted"),
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct counter_value value = {
			.count = 7, .enabled_ns = cases[i].enabled_ns,
			.running_ns = cases[i].running_ns,
		};
		int ok = strcmp(value_state(&value, 0), cases[i].whole) == 0 &&
			 strcmp(value_state(&value, 1), cases[i].part) == 0;

		if (!ok)
			printf("# row at line %d\n", cases[i].line);
		CHECK(ok);
	}
}

TEST(refusals_have_states)
{
	CHECK(strcmp(refusal_state(EACCES), "forbidden") == 0);
	CHECK(strcmp(refusal_state(EPERM), "forbidden") == 0);
	CHECK(strcmp(refusal_state(ENOENT), "unsupported") == 0);
	CHECK(strcmp(refusal_state(EOPNOTSUPP), "unsupported") == 0);
	CHECK(strcmp(refusal_state(EINVAL), "unsupported") == 0);
	CHECK(strcmp(refusal_state(ENOSYS), "failed") == 0);
	CHECK(strcmp(refusal_state(EMFILE), "failed") == 0);
}

CHECK_MAIN
