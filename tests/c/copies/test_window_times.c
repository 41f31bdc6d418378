/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Windows of made-up copies: what do they take, and when is that not known? */
#include <sys/mman.h>

#include "window_rig.h"

TEST(nearly_empty_tlbs_have_no_time)
{
	struct rig *rig = make_rig(true);

	/* 100,000 of warm-up are least: here, half of what there is. */
	remake(rig, "measure", "400000");
	make_load(rig);
	for (uint32_t window = 0; window < 2; window++) {
		begin(rig, window);
		cycle(rig, 60, window ? 199000 : 201000);
		end(rig, FOLLOW_CALL);
	}
	write_tables(rig);
	CHECK(value(rig, "copy_windows", 0, "base_cycles") > 0);
	CHECK_EQUAL(value(rig, "copy_windows", 0, "timed_references"),
		    value(rig, "copy_windows", 0, "references"));
	CHECK(strcmp(cell(rig, "copy_windows", 1, "base_cycles"), "NA") == 0);
	CHECK_EQUAL(value(rig, "copy_windows", 1, "timed_references"), 0);
	/* It is counted all the same. */
	CHECK(value(rig, "copy_windows", 1, "references") > 90000);
	CHECK(value(rig, "copy_counts", ROWS + BASE_LOADS, "stlb_hits") > 90000);
	drop_rig(rig);
}

TEST(a_window_without_references_has_no_time)
{
	struct rig *rig = make_rig(true);

	make_load(rig);
	begin(rig, 0);
	end(rig, FOLLOW_CALL);
	write_tables(rig);
	CHECK_EQUAL(value(rig, "copy_windows", 0, "references"), 0);
	CHECK(strcmp(cell(rig, "copy_windows", 0, "base_cycles"), "NA") == 0);
	drop_rig(rig);
}

/* A window of loads from each line of this memory, page by page, in no order that is prefetched. */
static void pass(struct rig *rig, uint32_t window, const uint8_t *memory, size_t bytes)
{
	const uint64_t start = (uint64_t)(uintptr_t)memory;

	begin(rig, window);
	for (uint64_t line = 0; line < bytes / 64; line++)
		if (!execute(rig, start + line / 64 * PAGE + line * 29 % 64 * 64))
			break;
	end(rig, FOLLOW_CALL);
}

TEST(lines_of_pages_that_the_kernel_has_just_cleared_are_near)
{
	const size_t bytes = 2u << 20;
	struct rig *rig = make_rig(true);
	uint8_t *memory;

	remake(rig, "core", "l3-half-life-cycles=1000");
	memory = mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED);
	CHECK_EQUAL(madvise(memory, 2 * bytes, MADV_NOHUGEPAGE), 0);
	memset(memory, 1, bytes);
	make_load(rig);
	rig->options.least_warm = 0;
	pass(rig, 0, memory, bytes);
	pass(rig, 1, memory + bytes, bytes);
	write_tables(rig);
	CHECK(value(rig, "copy_windows", 1, "base_cycles") > 0);
	CHECK(2 * value(rig, "copy_windows", 1, "base_cycles") <
	      value(rig, "copy_windows", 0, "base_cycles"));
	/* A page has one walk, cleared or not. */
	CHECK_EQUAL(value(rig, "copy_counts", ROWS + BASE_LOADS, "unknown_misses"),
		    value(rig, "copy_counts", BASE_LOADS, "unknown_misses"));
	munmap(memory, 2 * bytes);
	drop_rig(rig);
}

TEST(walks_take_time_on_base_pages)
{
	struct rig *rig = make_rig(true);
	long long base, huge;

	make_load(rig);
	CHECK(rig->block.watched != NULL);
	begin(rig, 0);
	cycle(rig, 1000, 5000000);
	end(rig, FOLLOW_ENOUGH);
	write_tables(rig);
	base = value(rig, "copy_windows", 0, "base_cycles");
	huge = value(rig, "copy_windows", 0, "huge_cycles");
	CHECK(huge > 0);
	CHECK(base > huge);
	drop_rig(rig);
}

TEST(the_warm_up_fills_near_caches)
{
	struct rig *rig = make_rig(true);

	remake(rig, "measure", "4000");
	rig->options.core_warm = 0;
	make_load(rig);
	begin(rig, 0);
	/* Lines that fit L2; in the measured part, each is accessed once. */
	for (uint64_t i = 0; execute(rig, DATA + i * 7919 % 16384 * 64); i++)
		;
	end(rig, FOLLOW_ENOUGH);
	write_tables(rig);
	CHECK_EQUAL(value(rig, "copy_windows", 0, "references"), 4000);
	/* From memory, no more than 16 at once, they take more than 20 each. */
	CHECK(value(rig, "copy_windows", 0, "huge_cycles") > 0);
	CHECK(value(rig, "copy_windows", 0, "huge_cycles") < 4000 * 5);
	drop_rig(rig);
}

/* What 9000 walks add on such a core. */
static long long walks_cost(const char *core)
{
	struct rig *rig = make_rig(true);
	long long added;

	remake(rig, "core", core);
	make_load(rig);
	begin(rig, 0);
	/* The TLBs get warm by few pages; the entries of those that follow are in other lines. */
	for (uint64_t i = 0;; i++)
		if (!execute(rig, DATA + (i < 250000 ? i % 100 : 8 * (i - 249000)) * PAGE))
			break;
	end(rig, FOLLOW_ENOUGH);
	write_tables(rig);
	added = value(rig, "copy_windows", 0, "base_cycles") -
		value(rig, "copy_windows", 0, "huge_cycles");
	drop_rig(rig);
	return added;
}

TEST(entries_not_seen_are_older_than_the_window)
{
	const long long walks = walks_cost("l3-half-life-cycles=1000");

	/* They come from memory; from the last level, it would be 28 each. */
	CHECK(walks > 9000 * 50);
}

TEST(processes_do_not_share_caches)
{
	struct rig *rig = make_rig(true);
	struct copy self = { .pid = getpid(), .program = 7, .thread = 8 };
	const struct window_start start = { .number = 0 };

	remake(rig, "warm", "0");
	/* How much of a program a last level holds depends on its size: here, on this test's. */
	remake(rig, "core", "l3-bytes=0");
	make_load(rig);
	for (int window = 0; window < 3; window++) {
		self.program = window < 2 ? 7 : 9;
		CHECK_EQUAL(windows_begin(rig->windows, &self, &start), 0);
		for (uint64_t i = 0; i < 1000; i++)
			execute(rig, DATA + i * 7919 % 1024 * 64);
		end(rig, FOLLOW_CALL);
	}
	write_tables(rig);
	CHECK(value(rig, "copy_windows", 1, "huge_cycles") <
	      value(rig, "copy_windows", 0, "huge_cycles"));
	CHECK_EQUAL(value(rig, "copy_windows", 2, "huge_cycles"),
		    value(rig, "copy_windows", 0, "huge_cycles"));
	drop_rig(rig);
}

CHECK_MAIN
