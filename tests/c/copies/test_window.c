/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Windows of made-up copies: what is counted in them, and from where on? */
#include <sys/mman.h>

#include "window_rig.h"

TEST(a_cycle_beyond_the_entries_walks_always)
{
	struct rig *rig = make_rig(false);
	uint64_t made;

	make_load(rig);
	begin(rig, 5);
	made = cycle(rig, 1000, 5000000);
	end(rig, FOLLOW_ENOUGH);
	write_tables(rig);
	/* Such a TLB is known to be warm after two steps: the first has the unknown ones. */
	CHECK(made >= 500000 && made < 550000);
	CHECK_EQUAL(value(rig, "copy_windows", 0, "window"), 5);
	CHECK_EQUAL(value(rig, "copy_windows", 0, "pid"), getpid());
	CHECK_EQUAL(value(rig, "copy_windows", 0, "tid"), 8);
	CHECK_EQUAL(value(rig, "copy_windows", 0, "references"), 9000);
	CHECK_EQUAL(value(rig, "copy_windows", 0, "instructions"), 9000);
	/* And the code page was fetched. */
	CHECK_EQUAL(value(rig, "copy_windows", 0, "warm_references") + 9000, (long long)made + 2);
	CHECK(strcmp(cell(rig, "copy_windows", 0, "ended"), "enough") == 0);
	CHECK(strcmp(cell(rig, "copy_windows", 0, "call"), "NA") == 0);
	CHECK(strcmp(cell(rig, "copy_windows", 0, "base_cycles"), "NA") == 0);
	CHECK_EQUAL(value(rig, "copy_counts", BASE_LOADS, "stlb_misses"), 9000);
	CHECK_EQUAL(value(rig, "copy_counts", BASE_LOADS, "unknown_misses"), 0);
	CHECK_EQUAL(value(rig, "copy_counts", BASE_STORES, "l1_misses"), 0);
	CHECK_EQUAL(value(rig, "copy_counts", HUGE_LOADS, "stlb_misses"), 0);
	drop_rig(rig);
}

TEST(a_cycle_within_the_second_level_hits_it)
{
	struct rig *rig = make_rig(false);

	make_load(rig);
	begin(rig, 0);
	cycle(rig, 48, 5000000);
	end(rig, FOLLOW_ENOUGH);
	write_tables(rig);
	CHECK_EQUAL(value(rig, "copy_counts", BASE_LOADS, "l1_misses"), 9000);
	CHECK_EQUAL(value(rig, "copy_counts", BASE_LOADS, "stlb_hits"), 9000);
	CHECK_EQUAL(value(rig, "copy_counts", BASE_LOADS, "stlb_misses"), 0);
	CHECK_EQUAL(value(rig, "copy_counts", BASE_LOADS, "unknown_misses"), 0);
	drop_rig(rig);
}

TEST(new_pages_prolong_the_warm_up)
{
	struct rig *rig = make_rig(false);
	uint64_t made;

	remake(rig, "stlb", "65536:4,65536:4");
	make_load(rig);
	begin(rig, 0);
	made = cycle(rig, 40, 5000000);
	end(rig, FOLLOW_ENOUGH);
	/* The first step has the unknown ones. */
	CHECK(made >= 1000000 && made < 1100000);
	begin(rig, 1);
	/* A thousandth of the references is to new pages. */
	for (made = 0; made < 5000000; made++)
		if (!execute(rig, DATA + (made % 1000 ? 0 : made / 1000) * PAGE))
			break;
	end(rig, FOLLOW_ENOUGH);
	CHECK(made >= 3000000 && made < 3200000);
	write_tables(rig);
	CHECK_EQUAL(value(rig, "copy_counts", BASE_LOADS, "unknown_misses"), 0);
	CHECK_EQUAL(value(rig, "copy_counts", ROWS + BASE_LOADS, "unknown_misses"), 9);
	drop_rig(rig);
}

TEST(a_short_window_is_measured)
{
	struct rig *rig = make_rig(true);

	make_load(rig);
	rig->options.least_warm = 0;
	begin(rig, 0);
	CHECK_EQUAL(cycle(rig, 60, 100), 100);
	end(rig, FOLLOW_CALL);
	write_tables(rig);
	CHECK(strcmp(cell(rig, "copy_windows", 0, "ended"), "call") == 0);
	CHECK_EQUAL(value(rig, "copy_windows", 0, "call"), 202);
	/* Half warms the TLBs; of the rest a tenth the core, as in long ones.  There is a fetch. */
	CHECK_EQUAL(value(rig, "copy_windows", 0, "warm_references"), 1 + 50 + 5);
	CHECK_EQUAL(value(rig, "copy_windows", 0, "references"), 45);
	CHECK_EQUAL(value(rig, "copy_windows", 0, "timed_references"), 45);
	CHECK(value(rig, "copy_windows", 0, "base_cycles") > 0);
	/* 5 new pages, and whether the TLB knew them is not known. */
	CHECK_EQUAL(value(rig, "copy_counts", BASE_LOADS, "unknown_misses"), 5);
	CHECK_EQUAL(value(rig, "copy_counts", BASE_LOADS, "stlb_misses"), 0);
	CHECK_EQUAL(value(rig, "copy_counts", BASE_LOADS, "stlb_hits"), 40);
	drop_rig(rig);
}

TEST(windows_know_nothing_of_each_other)
{
	static const char *const columns[] = {
		"l1_misses", "stlb_hits", "stlb_misses", "unknown_misses",
	};
	struct rig *rig = make_rig(false);

	make_load(rig);
	for (uint32_t window = 0; window < 2; window++) {
		begin(rig, window);
		cycle(rig, 50, 3000);
		end(rig, FOLLOW_FAULT);
	}
	write_tables(rig);
	CHECK(value(rig, "copy_counts", BASE_LOADS, "l1_misses") > 0);
	for (int row = 0; row < ROWS; row++)
		for (int i = 0; i < 4; i++)
			CHECK_EQUAL(value(rig, "copy_counts", ROWS + row, columns[i]),
				    value(rig, "copy_counts", row, columns[i]));
	drop_rig(rig);
}

/* rep movs: what it moves, as one execution, and as one for each element. */
TEST(strings_are_their_elements)
{
	struct rig *rig = make_rig(false);
	const uint64_t from = DATA + 8, to = DATA + 100 * PAGE + 16, bytes = 60 * PAGE;

	/* All of it is measured. */
	rig->options.warm = rig->options.core_warm = 0;
	rig->options.measured = 1;
	rig->references[0] = (struct code_reference){ 0, 8, REFERENCE_LOAD };
	rig->references[1] = (struct code_reference){ .kind = REFERENCE_LENGTH };
	rig->references[2] = (struct code_reference){ 0, 8, REFERENCE_STORE };
	rig->references[3] = (struct code_reference){ .kind = REFERENCE_LENGTH };
	rig->block.reference_count = 4;
	begin(rig, 0);
	for (int i = 0; i < 3; i++)
		rig->watcher->executed(rig->watcher->context, &rig->block,
				       (uint64_t[]){ from, bytes, to, bytes }, CODE);
	end(rig, FOLLOW_CALL);
	rig->references[1] = rig->references[2];
	rig->block.reference_count = 2;
	begin(rig, 1);
	for (int i = 0; i < 3; i++)
		for (uint64_t done = 0; done < bytes; done += 8)
			rig->watcher->executed(rig->watcher->context, &rig->block,
					       (uint64_t[]){ from + done, to + done }, CODE);
	end(rig, FOLLOW_CALL);
	write_tables(rig);
	CHECK_EQUAL(value(rig, "copy_windows", 1, "references"), 3 * 2 * bytes / 8 + 1);
	CHECK_EQUAL(value(rig, "copy_windows", 0, "references"),
		    value(rig, "copy_windows", 1, "references"));
	for (int row = 0; row < ROWS; row++) {
		CHECK_EQUAL(value(rig, "copy_counts", row, "l1_misses"),
			    value(rig, "copy_counts", ROWS + row, "l1_misses"));
		CHECK_EQUAL(value(rig, "copy_counts", row, "stlb_hits"),
			    value(rig, "copy_counts", ROWS + row, "stlb_hits"));
	}
	CHECK(value(rig, "copy_counts", BASE_STORES, "stlb_misses") > 60);
	drop_rig(rig);
}

TEST(code_may_be_forgotten_in_a_window)
{
	struct rig *rig = make_rig(true);
	struct code_block *heap = malloc(sizeof(*heap));

	make_load(rig);
	rig->options.least_warm = 0;
	begin(rig, 0);
	*heap = rig->block;
	for (uint64_t i = 0; i < 5000; i++)
		rig->watcher->executed(rig->watcher->context, heap,
				       (uint64_t[]){ DATA + i % 50 * PAGE }, CODE);
	rig->watcher->clearing(rig->watcher->context);
	free(heap);
	cycle(rig, 50, 4000);
	end(rig, FOLLOW_CALL);
	write_tables(rig);
	/* What was forgotten has warmed the TLBs. */
	CHECK_EQUAL(value(rig, "copy_windows", 0, "warm_references"), 1 + 5000 + 2200);
	CHECK_EQUAL(value(rig, "copy_windows", 0, "references"), 1800);
	CHECK_EQUAL(value(rig, "copy_counts", BASE_LOADS, "unknown_misses"), 0);
	CHECK(value(rig, "copy_windows", 0, "base_cycles") > 0);
	drop_rig(rig);
}

TEST(code_without_references_has_enough_too)
{
	struct rig *rig = make_rig(false);
	uint64_t made = 0;

	rig->block.instruction_count = 8;
	begin(rig, 0);
	while (made < 20000000 && execute(rig, 0))
		made++;
	end(rig, FOLLOW_ENOUGH);
	write_tables(rig);
	CHECK(made < 20000000);
	CHECK_EQUAL(value(rig, "copy_windows", 0, "references"), 0);
	CHECK(value(rig, "copy_windows", 0, "instructions") >= 16 * 9000);
	drop_rig(rig);
}

/* Two huge pages' places, of which the second is half there; then what is not mapped. */
TEST(walks_are_counted_by_huge_page)
{
	const uint64_t huge = UINT64_C(2) << 20;
	struct rig *rig = make_rig(false);
	char *area = mmap(NULL, 4 * huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uint64_t first = ((uint64_t)(uintptr_t)area + huge - 1) / huge * huge;
	uint64_t count = 0;

	CHECK(area != MAP_FAILED);
	madvise(area, 4 * huge, MADV_NOHUGEPAGE);
	for (uint64_t page = 0; page < 512 + 256; page++)
		*(volatile char *)(uintptr_t)(first + page * PAGE) = 1;
	make_load(rig);
	begin(rig, 5);
	while (count < 5000000 && execute(rig, first + count % 1000 * PAGE))
		count++;
	end(rig, FOLLOW_ENOUGH);
	begin(rig, 6);
	count = 0;
	while (count < 5000000 && execute(rig, DATA + count % 1000 * PAGE))
		count++;
	end(rig, FOLLOW_ENOUGH);
	write_tables(rig);
	for (int row = 0; row < 2; row++) {
		const int second =
			value(rig, "copy_blocks", row, "address") == (long long)(first + huge);

		CHECK_EQUAL(value(rig, "copy_blocks", row, "window"), 5);
		CHECK_EQUAL(value(rig, "copy_blocks", row, "resident_bytes"),
			    (long long)(second ? huge / 2 : huge));
		CHECK_EQUAL(value(rig, "copy_blocks", row, "base_walks"), second ? 9 * 488 : 9 * 512);
		CHECK_EQUAL(value(rig, "copy_blocks", row, "huge_walks"), 0);
	}
	/* Memory without a mapping has no place. */
	CHECK(cell(rig, "copy_blocks", 2, "address")[0] == '\0' ||
	      cell(rig, "copy_blocks", 2, "address")[0] == '#');
	drop_rig(rig);
}

TEST(wrong_options_are_refused)
{
	struct window_options options;

	window_options_init(&options);
	CHECK_EQUAL(window_options_take(&options, "measure", "0"), -1);
	CHECK_EQUAL(window_options_take(&options, "warm", "5e6"), -1);
	CHECK_EQUAL(window_options_take(&options, "l1d", "0:0,32:4"), -1);
	CHECK_EQUAL(window_options_take(&options, "stlb", "0:0,0:0"), 1);
	CHECK_EQUAL(window_options_take(&options, "stlb-folded", "maybe"), -1);
	CHECK_EQUAL(window_options_take(&options, "overhead", "5"), 0);
	CHECK_EQUAL(window_options_take(&options, "huge-page", "4096"), 1);
	CHECK(window_options_check(&options) != NULL);
}

CHECK_MAIN
