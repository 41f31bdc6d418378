/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Are the kernel's records read as it wrote them, and is garbage survived? */
#include "check.h"

#include <linux/perf_event.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"

/* A record as the kernel lays it out, in 64-bit words. */
struct made {
	uint64_t words[64];
	size_t count;
};

static uint64_t pair(uint32_t low, uint32_t high)
{
	uint32_t both[2] = { low, high };
	uint64_t word;

	memcpy(&word, both, sizeof(word));
	return word;
}

static void add(struct made *made, uint64_t word)
{
	made->words[made->count++] = word;
}

static struct made begin(void)
{
	return (struct made){ .count = 1 };
}

/* The end of all records but samples: pid and tid, time, cpu, id. */
static void add_trailer(struct made *made)
{
	add(made, pair(10, 11));
	add(made, 777);
	add(made, pair(3, 0));
	add(made, 42);
}

static size_t end(struct made *made, uint32_t type, uint16_t misc)
{
	struct perf_event_header header = {
		.type = type, .misc = misc, .size = (uint16_t)(8 * made->count),
	};

	memcpy(made->words, &header, sizeof(header));
	return header.size;
}

static size_t made_sample(struct made *made, int addresses, int period)
{
	*made = begin();
	add(made, 42);			/* id */
	add(made, 0x401000);		/* ip */
	add(made, pair(10, 11));
	add(made, 555);			/* time */
	if (addresses)
		add(made, 0x7f0000001234);
	add(made, pair(3, 0));		/* cpu */
	if (period)
		add(made, 1009);
	if (addresses)
		add(made, (uint64_t)(PERF_MEM_TLB_MISS | PERF_MEM_TLB_L2) << PERF_MEM_TLB_SHIFT);
	return end(made, PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
}

static void samples_with_and_without_period_and_address(void)
{
	for (int addresses = 0; addresses < 2; addresses++) {
		for (int period = 0; period < 2; period++) {
			struct record record;
			struct made made;
			size_t size = made_sample(&made, addresses, period);

			CHECK_EQUAL(record_size(made.words, size), size);
			CHECK_EQUAL(record_parse(made.words, size, addresses, &record), 0);
			CHECK_EQUAL(record.kind, RECORD_SAMPLE);
			CHECK_EQUAL(record.id, 42);
			CHECK_EQUAL(record.pid, 10);
			CHECK_EQUAL(record.tid, 11);
			CHECK_EQUAL(record.cpu, 3);
			CHECK_EQUAL(record.time_ns, 555);
			CHECK_EQUAL(record.sample.ip, 0x401000);
			CHECK_EQUAL(record.sample.mode, MODE_USER);
			CHECK_EQUAL(record.sample.period, period ? 1009 : 0);
			CHECK_EQUAL(record.sample.address, addresses ? 0x7f0000001234 : 0);
			CHECK_EQUAL(record.sample.data_source != 0, addresses);
		}
	}
}

static size_t made_mapping(struct made *made, uint16_t misc, const char *name)
{
	*made = begin();
	add(made, pair(10, 11));
	add(made, 0x400000);
	add(made, 0x2000);
	add(made, 0x1000);
	/* Device and inode; or the length of the build id, and the build id. */
	add(made, pair(20, 0xaaaaaaaa));
	add(made, UINT64_MAX);
	add(made, UINT64_MAX);
	add(made, pair(5, 2));
	memset(made->words + made->count, 0, 64);
	strcpy((char *)(made->words + made->count), name);
	made->count += strlen(name) / 8 + 1;
	add_trailer(made);
	return end(made, PERF_RECORD_MMAP2, misc);
}

static void mappings_with_and_without_build_id(void)
{
	struct record record;
	struct made made;
	size_t size = made_mapping(&made, PERF_RECORD_MISC_USER, "/usr/lib/libc.so.6");

	CHECK_EQUAL(record_parse(made.words, size, 0, &record), 0);
	CHECK_EQUAL(record.kind, RECORD_MAPPING);
	CHECK_EQUAL(record.mapping.start, 0x400000);
	CHECK_EQUAL(record.mapping.length, 0x2000);
	CHECK_EQUAL(record.mapping.offset, 0x1000);
	CHECK_EQUAL(record.mapping.name_length, 18);
	CHECK(strcmp(record.mapping.name, "/usr/lib/libc.so.6") == 0);
	CHECK_EQUAL(record.mapping.build_id_size, 0);
	CHECK_EQUAL(record.time_ns, 777);
	size = made_mapping(&made, 1 << 14, "x");
	CHECK_EQUAL(record_parse(made.words, size, 0, &record), 0);
	CHECK_EQUAL(record.mapping.build_id_size, 20);
	CHECK_EQUAL(record.mapping.build_id[0], 0xaa);
	CHECK_EQUAL(record.mapping.build_id[19], 0xff);
}

static void processes_and_losses(void)
{
	struct made made = begin();
	struct record record;
	size_t size;

	add(&made, pair(20, 10));
	add(&made, pair(21, 11));
	add(&made, 700);
	add_trailer(&made);
	size = end(&made, PERF_RECORD_FORK, 0);
	CHECK_EQUAL(record_parse(made.words, size, 0, &record), 0);
	CHECK_EQUAL(record.kind, RECORD_FORK);
	CHECK_EQUAL(record.pid, 20);
	CHECK_EQUAL(record.parent_pid, 10);
	CHECK_EQUAL(record.tid, 21);
	made = begin();
	add(&made, pair(20, 20));
	add(&made, 0x6c6f6f70);
	add_trailer(&made);
	size = end(&made, PERF_RECORD_COMM, 0);
	CHECK_EQUAL(record_parse(made.words, size, 0, &record), 0);
	CHECK_EQUAL(record.kind, RECORD_OTHER);
	size = end(&made, PERF_RECORD_COMM, PERF_RECORD_MISC_COMM_EXEC);
	CHECK_EQUAL(record_parse(made.words, size, 0, &record), 0);
	CHECK_EQUAL(record.kind, RECORD_EXEC);
	made = begin();
	add(&made, 42);
	add(&made, 17);
	add_trailer(&made);
	size = end(&made, PERF_RECORD_LOST, 0);
	CHECK_EQUAL(record_parse(made.words, size, 0, &record), 0);
	CHECK_EQUAL(record.kind, RECORD_LOST);
	CHECK_EQUAL(record.lost, 17);
}

static void headers_that_make_no_sense(void)
{
	struct made made;
	size_t size = made_sample(&made, 0, 0);
	unsigned char *bytes = (unsigned char *)made.words;

	CHECK_EQUAL(record_size(bytes, 0), 0);
	CHECK_EQUAL(record_size(bytes, 7), 0);
	CHECK_EQUAL(record_size(bytes, size - 1), 0);
	bytes[6] = 0;		/* size: too small, then not padded */
	CHECK_EQUAL(record_size(bytes, size), 0);
	bytes[6] = 13;
	CHECK_EQUAL(record_size(bytes, size), 0);
}

/* Each record, cut at each length, at each alignment: read or refused, never read beyond. */
static void cut_records(void)
{
	for (int which = 0; which < 3; which++) {
		struct made made;
		size_t size = which == 0 ? made_sample(&made, 1, 1) :
			      which == 1 ? made_sample(&made, 0, 0) :
					   made_mapping(&made, 0, "/a/file/with/a/name");

		for (size_t length = 8; length <= size; length++) {
			/* Of exactly this size, so that the sanitizer sees each byte beyond. */
			unsigned char *copy = malloc(length + 1);
			struct record record;

			memcpy(copy + 1, made.words, length);
			record_parse(copy + 1, length, 0, &record);
			record_parse(copy + 1, length, 1, &record);
			free(copy);
		}
	}
}

static void random_bytes(void)
{
	uint64_t state = 1;

	for (int i = 0; i < 200000; i++) {
		unsigned char bytes[200];
		struct record record;
		size_t size;

		for (size_t j = 0; j < sizeof(bytes); j++) {
			state = state * 6364136223846793005u + 1442695040888963407u;
			bytes[j] = (unsigned char)(state >> 56);
		}
		/* Types that exist, and sizes that may fit. */
		bytes[0] %= 20;
		memset(bytes + 1, 0, 3);
		bytes[6] &= 0xf8;
		bytes[7] = 0;
		size = record_size(bytes, sizeof(bytes));
		CHECK(size <= sizeof(bytes));
		if (size && record_parse(bytes, size, i & 1, &record) == 0 &&
		    record.kind == RECORD_MAPPING) {
			const char *stop = (const char *)bytes + size;

			CHECK(record.mapping.name + record.mapping.name_length <= stop);
		}
	}
}

static uint64_t tlb(unsigned bits)
{
	return (uint64_t)bits << PERF_MEM_TLB_SHIFT;
}

static void what_samples_say_of_the_tlb(void)
{
	CHECK(data_tlb_name(0) == NULL);
	CHECK(data_tlb_name(tlb(PERF_MEM_TLB_NA)) == NULL);
	CHECK(data_tlb_name(tlb(PERF_MEM_TLB_MISS | PERF_MEM_TLB_L1)) == NULL);
	CHECK(!strcmp(data_tlb_name(tlb(PERF_MEM_TLB_HIT | PERF_MEM_TLB_L1)), "l1_hit"));
	CHECK(!strcmp(data_tlb_name(tlb(PERF_MEM_TLB_HIT | PERF_MEM_TLB_L2)), "stlb_hit"));
	CHECK(!strcmp(data_tlb_name(tlb(PERF_MEM_TLB_HIT | PERF_MEM_TLB_L1 | PERF_MEM_TLB_L2)),
		      "hit"));
	CHECK(!strcmp(data_tlb_name(tlb(PERF_MEM_TLB_MISS | PERF_MEM_TLB_L2)), "walk"));
	CHECK(!strcmp(data_tlb_name(tlb(PERF_MEM_TLB_HIT | PERF_MEM_TLB_WK)), "walk"));
}

static int is_level(uint64_t level, uint64_t number, const char *expected)
{
	const char *found = memory_level_name(level << PERF_MEM_LVL_SHIFT |
					      number << PERF_MEM_LVLNUM_SHIFT);

	return expected ? found && !strcmp(found, expected) : !found;
}

static void levels_are_memory_or_a_cache_or_not_known(void)
{
	CHECK(is_level(0, 0, NULL));
	CHECK(is_level(PERF_MEM_LVL_NA, PERF_MEM_LVLNUM_NA, NULL));
	CHECK(is_level(PERF_MEM_LVL_HIT | PERF_MEM_LVL_L1, 0, "cache"));
	CHECK(is_level(PERF_MEM_LVL_HIT | PERF_MEM_LVL_L3, PERF_MEM_LVLNUM_L3, "cache"));
	CHECK(is_level(0, PERF_MEM_LVLNUM_ANY_CACHE, "cache"));
	CHECK(is_level(PERF_MEM_LVL_HIT | PERF_MEM_LVL_LOC_RAM, 0, "memory"));
	CHECK(is_level(PERF_MEM_LVL_HIT | PERF_MEM_LVL_REM_RAM1, 0, "memory"));
	CHECK(is_level(0, PERF_MEM_LVLNUM_RAM, "memory"));
	CHECK(is_level(0, PERF_MEM_LVLNUM_PMEM, "memory"));
	CHECK(is_level(PERF_MEM_LVL_MISS | PERF_MEM_LVL_L3, 0, "memory"));
	CHECK(is_level(PERF_MEM_LVL_MISS | PERF_MEM_LVL_L1, 0, NULL));
	/* Another core's cache. */
	CHECK(is_level(PERF_MEM_LVL_HIT | PERF_MEM_LVL_REM_CCE1, 0, "cache"));
}

static const struct check_test tests[] = {
	{ "samples with and without a period and an address",
	  samples_with_and_without_period_and_address },
	{ "mappings with and without a build id", mappings_with_and_without_build_id },
	{ "forks, execs and losses", processes_and_losses },
	{ "headers that make no sense are refused", headers_that_make_no_sense },
	{ "records that were cut are not read beyond their end", cut_records },
	{ "random bytes are survived", random_bytes },
	{ "what samples say of the TLB", what_samples_say_of_the_tlb },
	{ "levels are memory, or a cache, or not known", levels_are_memory_or_a_cache_or_not_known },
};

CHECK_MAIN(tests)
