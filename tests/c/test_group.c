/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is refused, and what state has a value?  Groups: tests/bats/tlbcost-count.bats. */
#include "check.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>

#include "group.h"
#include "rows.h"

static const struct open_target self = { .pid = 0, .cpu = -1 };

TEST(targets_that_ended_are_left_out)
{
	const struct event events[] = {
		{ .name = "faults", .encoding = { PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 0, 0,
						  ENCODED_BY_CODE } },
	};
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
