/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Are names and codes of events turned into what the kernel wants, or refused with the reason? */
#include "made_up.h"

#include <errno.h>
#include <linux/perf_event.h>

#include "../../profiler/counters/encode.h"

static const struct {
	int line;
	const char *spec;
	struct encoding encoding;
	int error;		/* 0: encodes */
	const char *why;	/* must be part of the reason */
} cases[] = {
#define LIBPFM4(spec, type, config, config1, precise) \
	{ __LINE__, spec, { type, config, config1, precise, ENCODED_BY_LIBPFM4 }, 0, "" }
#define CODE(spec, type, config, config1, precise) \
	{ __LINE__, spec, { type, config, config1, precise, ENCODED_BY_CODE }, 0, "" }
#define BAD(spec, error, why) { __LINE__, spec, { 0 }, error, why }
	LIBPFM4("perf::PAGE-FAULTS", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 0, 0),
	LIBPFM4("PAGE-FAULTS", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 0, 0),
	LIBPFM4("perf::CYCLES", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 0, 0),
	LIBPFM4("perf::DTLB-LOAD-MISSES", PERF_TYPE_HW_CACHE, 0x10003, 0, 0),
	LIBPFM4("perf_raw::r1008", PERF_TYPE_RAW, 0x1008, 0, 0),
	LIBPFM4("perf::PAGE-FAULTS|code:4:1", PERF_TYPE_SOFTWARE,
		PERF_COUNT_SW_PAGE_FAULTS, 0, 0),
#if defined(__x86_64__)
	/* Tables of CPUs that this one need not be; each library holds one architecture's. */
	LIBPFM4("skl::DTLB_LOAD_MISSES:WALK_ACTIVE", PERF_TYPE_RAW, 0x1001008, 0, 0),
	LIBPFM4("spr::DTLB_LOAD_MISSES:WALK_ACTIVE", PERF_TYPE_RAW, 0x1001012, 0, 0),
	LIBPFM4("bdw::DTLB_LOAD_MISSES:WALK_DURATION:c=1", PERF_TYPE_RAW, 0x1001008, 0, 0),
	LIBPFM4("skl::MEM_INST_RETIRED:STLB_MISS_LOADS:precise=2", PERF_TYPE_RAW, 0x11d0, 0, 2),
	LIBPFM4("skl::MEM_TRANS_RETIRED:LOAD_LATENCY:ldlat=30:precise=2", PERF_TYPE_RAW,
		0x1cd, 30, 2),
	BAD("skl::DTLB_LOAD_MISSES", EINVAL, "unit mask"),
	BAD("skl::DTLB_LOAD_MISSES:WALK_ACTIVE:u", EINVAL, "has modifiers beyond the event"),
#endif
	CODE("code:4:0x1001008", PERF_TYPE_RAW, 0x1001008, 0, 0),
	CODE("code:4:0x11d0:0x3:2", PERF_TYPE_RAW, 0x11d0, 3, 2),
	CODE("code:raw:0xffffffffffffffff", PERF_TYPE_RAW, UINT64_MAX, 0, 0),
	CODE("code:hardware:1", PERF_TYPE_HARDWARE, 1, 0, 0),
	CODE("code:software:2", PERF_TYPE_SOFTWARE, 2, 0, 0),
	CODE("code:cache:0x10003", PERF_TYPE_HW_CACHE, 0x10003, 0, 0),
	CODE("no_such_cpu::X|code:4:0x34", PERF_TYPE_RAW, 0x34, 0, 0),
	CODE("code:no_such_source:1|code:4:2", PERF_TYPE_RAW, 2, 0, 0),
	CODE("code:made_up:7", 12, 7, 0, 0),
	BAD("perf::CYCLES:u", EINVAL, "has modifiers beyond the event"),
	BAD("perf::CYCLES:pinned", EINVAL, "has modifiers beyond the event"),
	BAD("perf::NO-SUCH-EVENT", ENOENT, "perf::NO-SUCH-EVENT: event not found"),
	BAD("no_such_cpu::X", ENOENT, "event not found"),
	BAD("NO_SUCH_EVENT_AT_ALL", ENOENT, "event not found"),
	BAD("no_such_cpu::X|code:no_such_source:1", ENOENT, "; code:no_such_source:1: no such"),
	BAD("code:4:zero|no_such_cpu::X", ENOENT, "not a number"),
	BAD("", ENOENT, "event not found"),
	BAD("|", ENOENT, "event not found"),
	BAD("code:", EINVAL, "TYPE:CONFIG"),
	BAD("code:4", EINVAL, "TYPE:CONFIG"),
	BAD("code:4:", EINVAL, "not a number"),
	BAD("code:4:1:", EINVAL, "not a number"),
	BAD("code:4:-1", EINVAL, "not a number"),
	BAD("code:4:1:1:4", EINVAL, "too large"),
	BAD("code:4:0x10000000000000000", EINVAL, "too large"),
	BAD("code:4:1:1:1:1", EINVAL, "too many"),
	BAD("code::1", ENOENT, "no such event source"),
	BAD("code:4294967296:1", ENOENT, "no such event source"),
	BAD("code:../devices/made_up:1", ENOENT, "no such event source"),
	BAD("code:..:1", ENOENT, "no such event source"),
};

TEST(every_row)
{
	char why[600];

	start();
	put("/sys/bus/event_source/devices/made_up/type", "12\n");
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct encoding encoding = { 0 };
		int rc, error;

		errno = 0;
		rc = encode_event(cases[i].spec, &encoding, why, sizeof(why));
		error = rc ? errno : 0;
		if (error != cases[i].error || encoding.config != cases[i].encoding.config)
			printf("# row at line %d: %s\n", cases[i].line, why);
		CHECK_EQUAL(rc, cases[i].error ? -1 : 0);
		CHECK_EQUAL(error, cases[i].error);
		CHECK_EQUAL(encoding.type, cases[i].encoding.type);
		CHECK(encoding.config == cases[i].encoding.config);
		CHECK(encoding.config1 == cases[i].encoding.config1);
		CHECK_EQUAL(encoding.precise, cases[i].encoding.precise);
		CHECK_EQUAL(encoding.by, cases[i].encoding.by);
		if (!strstr(why, cases[i].why)) {
			printf("# row at line %d: %s\n", cases[i].line, why);
			CHECK(!"the reason is given");
		}
	}
	finish();
}

TEST(reasons_fit_or_are_cut)
{
	struct encoding encoding;
	char why[16], *longest;

	CHECK_EQUAL(encode_event("a::b|c::d|e::f|g::h", &encoding, why, sizeof(why)), -1);
	CHECK_EQUAL(strlen(why), sizeof(why) - 1);
	CHECK_EQUAL(encode_event("a::b", &encoding, NULL, 0), -1);
	longest = malloc(100000);
	CHECK(longest != NULL);
	if (!longest)
		return;
	memset(longest, 'x', 99999);
	longest[99999] = '\0';
	CHECK_EQUAL(encode_event(longest, &encoding, why, sizeof(why)), -1);
	CHECK_EQUAL(errno, EINVAL);
	memcpy(longest, "code:", 5);
	CHECK_EQUAL(encode_event(longest, &encoding, why, sizeof(why)), -1);
	CHECK_EQUAL(errno, EINVAL);
	free(longest);
}

TEST(environment_is_left_alone)
{
	struct encoding encoding;
	char why[100];

	CHECK_EQUAL(encode_event("perf::CYCLES", &encoding, why, sizeof(why)), 0);
	CHECK(!getenv("LIBPFM_ENCODE_INACTIVE"));
}

CHECK_MAIN
