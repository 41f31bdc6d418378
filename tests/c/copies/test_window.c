/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Windows of made-up copies: what is in their tables? */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "dataflow.h"
#include "instruction.h"
#include "window.h"
#include "window_options.h"

#define CODE 0x400000u
#define DATA UINT64_C(0x10000000)
#define PAGE UINT64_C(4096)

/* A made-up worker; `block` is what it executes. */
struct rig {
	struct window_options options;
	struct windows *windows;
	const struct watcher *watcher;
	struct code_instruction instructions[2];
	struct code_reference references[4];
	struct code_block block;
	char folder[64];
};

static struct rig *make_rig(bool timed)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	window_options_init(&rig->options);
	CHECK_EQUAL(window_options_take(&rig->options, "l1d", "16:4,16:4"), 1);
	CHECK_EQUAL(window_options_take(&rig->options, "stlb", "64:4,64:4"), 1);
	CHECK_EQUAL(window_options_take(&rig->options, "warm", "1000000"), 1);
	CHECK_EQUAL(window_options_take(&rig->options, "most-warm", "3000000"), 1);
	CHECK_EQUAL(window_options_take(&rig->options, "core-warm", "1000"), 1);
	CHECK_EQUAL(window_options_take(&rig->options, "measure", "9000"), 1);
	rig->options.timed = timed;
	rig->options.core_text = timed ? "made-up" : NULL;
	CHECK(!window_options_check(&rig->options));
	rig->windows = windows_make(&rig->options);
	rig->watcher = windows_watcher(rig->windows);
	rig->block = (struct code_block){
		.address = CODE, .past = CODE + 3, .end = ENDS_CUT, .instruction_count = 1,
		.instructions = rig->instructions, .references = rig->references,
	};
	rig->instructions[0] = (struct code_instruction){ CODE, 3 };
	strcpy(rig->folder, "/tmp/tlbcost-window.XXXXXX");
	CHECK(mkdtemp(rig->folder) != NULL);
	return rig;
}

/* mov rax, [rbx] */
static void make_load(struct rig *rig)
{
	static const uint8_t code[] = { 0x48, 0x8b, 0x03 };
	struct instruction decoded;

	CHECK(instruction_decode(&decoded, code, sizeof(code), CODE));
	rig->references[0] = (struct code_reference){ 0, 8, REFERENCE_LOAD };
	rig->block.reference_count = 1;
	rig->block.watched = rig->watcher->translated(rig->watcher->context, &rig->block, &decoded);
}

static void begin(struct rig *rig, uint32_t number)
{
	const struct copy self = { .pid = getpid(), .program = 7, .thread = 8 };
	const struct window_start start = { .number = number, .at_cpu_ns = 1000 };

	CHECK_EQUAL(windows_begin(rig->windows, &self, &start), 0);
}

static bool execute(struct rig *rig, uint64_t address)
{
	return rig->watcher->executed(rig->watcher->context, &rig->block, &address, CODE);
}

static void end(struct rig *rig, enum follow_end how)
{
	const struct followed followed = { .end = how, .call = 202 };

	CHECK_EQUAL(windows_end(rig->windows, &followed), 0);
}

/* Loads from pages in a cycle until the window has enough, or `most` of them; how many. */
static uint64_t cycle(struct rig *rig, uint64_t pages, uint64_t most)
{
	uint64_t count = 0;

	while (count < most && execute(rig, DATA + count % pages * PAGE))
		count++;
	return count;
}

static void write_tables(struct rig *rig)
{
	CHECK_EQUAL(windows_write(rig->windows, rig->folder, 3), 0);
}

static void drop_rig(struct rig *rig)
{
	char command[128];

	if (rig->block.watched)
		rig->watcher->forgotten(rig->watcher->context, rig->block.watched);
	windows_free(rig->windows);
	snprintf(command, sizeof(command), "rm -r %s", rig->folder);
	CHECK_EQUAL(system(command), 0);
	free(rig);
}

static int find_column(const char *names, const char *name)
{
	const size_t length = strlen(name);
	int column = 0;

	for (const char *at = names;; column++) {
		const size_t here = strcspn(at, "\t\n");

		if (here == length && strncmp(at, name, length) == 0)
			return column;
		if (at[here] != '\t')
			return -1;
		at += here + 1;
	}
}

/* A cell of row `row`, from 0, as text; "" if there is none. */
static const char *cell(struct rig *rig, const char *kind, int row, const char *name)
{
	static char text[64];
	char path[128], line[1024];
	int column = -1;
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s.3.tsv", rig->folder, kind);
	file = fopen(path, "r");
	text[0] = '\0';
	CHECK(file != NULL);
	if (!file)
		return text;
	while (fgets(line, sizeof(line), file)) {
		const char *at = line;

		if (line[0] == '#')
			continue;
		if (column < 0) {
			column = find_column(line, name);
			CHECK(column >= 0);
			if (column < 0)
				break;
			continue;
		}
		if (row-- > 0)
			continue;
		for (int i = 0; i < column; i++)
			at += strcspn(at, "\t") + 1;
		snprintf(text, sizeof(text), "%.*s", (int)strcspn(at, "\t\n"), at);
		break;
	}
	fclose(file);
	return text;
}

static long long value(struct rig *rig, const char *kind, int row, const char *name)
{
	const char *text = cell(rig, kind, row, name);

	if (text[0] && text[strspn(text, "0123456789")] == '\0')
		return atoll(text);
	printf("# %s of row %d of %s is \"%s\"\n", name, row, kind, text);
	return -1;
}

/* The same machine with other options. */
static void remake(struct rig *rig, const char *name, const char *text)
{
	windows_free(rig->windows);
	CHECK_EQUAL(window_options_take(&rig->options, name, text), 1);
	CHECK(!window_options_check(&rig->options));
	rig->windows = windows_make(&rig->options);
	rig->watcher = windows_watcher(rig->windows);
}

/* Rows of copy_counts in each window, by page size and side. */
enum { BASE_LOADS, BASE_STORES, BASE_FETCHES, HUGE_LOADS, HUGE_STORES, HUGE_FETCHES, ROWS };

static void a_cycle_beyond_the_entries_walks_always(void)
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
	CHECK_EQUAL(value(rig, "copy_windows", 0, "pid"), 7);
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

static void a_cycle_within_the_second_level_hits_it(void)
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

static void new_pages_prolong_the_warm_up(void)
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

static void a_short_window_is_measured(void)
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

static void nearly_empty_tlbs_have_no_time(void)
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

static void a_window_without_references_has_no_time(void)
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

static void lines_of_pages_that_the_kernel_has_just_cleared_are_near(void)
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

static void windows_know_nothing_of_each_other(void)
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

static void walks_take_time_on_base_pages(void)
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

static void the_warm_up_fills_near_caches(void)
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

static void entries_not_seen_are_older_than_the_window(void)
{
	const long long walks = walks_cost("l3-half-life-cycles=1000");

	/* They come from memory; from the last level, it would be 28 each. */
	CHECK(walks > 9000 * 50);
}

static void processes_do_not_share_caches(void)
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

/* rep movs: what it moves, as one execution, and as one for each element. */
static void strings_are_their_elements(void)
{
	struct rig *rig = make_rig(false);
	const uint64_t from = DATA + 8, to = DATA + 100 * PAGE + 16, bytes = 60 * PAGE;

	rig->options.whole = true;
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

static void code_may_be_forgotten_in_a_window(void)
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

static void code_without_references_has_enough_too(void)
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

static void a_whole_run_is_measured_from_its_start(void)
{
	struct rig *rig = make_rig(true);

	rig->options.whole = true;
	make_load(rig);
	begin(rig, 0);
	CHECK_EQUAL(cycle(rig, 1000, 6000000), 6000000);
	end(rig, FOLLOW_CALL);
	write_tables(rig);
	CHECK_EQUAL(value(rig, "copy_windows", 0, "warm_references"), 0);
	/* All of the first stretch is timed, and a part of each of the others. */
	CHECK_EQUAL(value(rig, "copy_windows", 0, "references"), 500000);
	CHECK_EQUAL(value(rig, "copy_windows", 0, "timed_references"), 500000);
	CHECK_EQUAL(value(rig, "copy_windows", 11, "window"), 11);
	CHECK_EQUAL(value(rig, "copy_windows", 11, "timed_references"), 9000);
	CHECK_EQUAL(value(rig, "copy_windows", 12, "references"), 1);
	CHECK_EQUAL(value(rig, "copy_counts", 11 * ROWS + BASE_LOADS, "l1_misses"), 500000);
	CHECK(value(rig, "copy_windows", 5, "base_cycles") >
	      value(rig, "copy_windows", 5, "huge_cycles"));
	drop_rig(rig);
}

static void views_are_counted(void)
{
	struct rig *rig = make_rig(false);

	remake(rig, "view", "page=4096,l1d=16:4,l1i=16:4,stlb=64:4");
	make_load(rig);
	begin(rig, 0);
	cycle(rig, 1000, 5000000);
	end(rig, FOLLOW_ENOUGH);
	write_tables(rig);
	CHECK_EQUAL(value(rig, "copy_views", 0, "stlb_misses"), 9000);
	CHECK_EQUAL(value(rig, "copy_views", 0, "unknown_misses"), 0);
	CHECK(strcmp(cell(rig, "copy_view_cycles", 0, "cycles"), "NA") == 0);
	drop_rig(rig);
}

static void wrong_options_are_refused(void)
{
	struct window_options options;

	window_options_init(&options);
	CHECK_EQUAL(window_options_take(&options, "measure", "0"), -1);
	CHECK_EQUAL(window_options_take(&options, "warm", "5e6"), -1);
	CHECK_EQUAL(window_options_take(&options, "l1d", "0:0,32:4"), -1);
	CHECK_EQUAL(window_options_take(&options, "stlb", "0:0,0:0"), 1);
	CHECK_EQUAL(window_options_take(&options, "stlb-folded", "maybe"), -1);
	CHECK_EQUAL(window_options_take(&options, "view-core", "x"), -1);
	CHECK_EQUAL(window_options_take(&options, "overhead", "5"), 0);
	CHECK_EQUAL(window_options_take(&options, "huge-page", "4096"), 1);
	CHECK(window_options_check(&options) != NULL);
}

static const struct check_test tests[] = {
	{ "a cycle beyond the entries walks always", a_cycle_beyond_the_entries_walks_always },
	{ "a cycle within the second level hits it", a_cycle_within_the_second_level_hits_it },
	{ "new pages prolong the warm-up", new_pages_prolong_the_warm_up },
	{ "a short window is measured", a_short_window_is_measured },
	{ "nearly empty TLBs have no time", nearly_empty_tlbs_have_no_time },
	{ "a window without references has no time", a_window_without_references_has_no_time },
	{ "lines of pages that the kernel has just cleared are near",
	  lines_of_pages_that_the_kernel_has_just_cleared_are_near },
	{ "windows know nothing of each other", windows_know_nothing_of_each_other },
	{ "walks take time on base pages", walks_take_time_on_base_pages },
	{ "the warm-up fills near caches", the_warm_up_fills_near_caches },
	{ "entries not seen are older than the window",
	  entries_not_seen_are_older_than_the_window },
	{ "processes do not share caches", processes_do_not_share_caches },
	{ "strings are their elements", strings_are_their_elements },
	{ "code may be forgotten in a window", code_may_be_forgotten_in_a_window },
	{ "code without references has enough, too", code_without_references_has_enough_too },
	{ "a whole run is measured from its start", a_whole_run_is_measured_from_its_start },
	{ "views are counted", views_are_counted },
	{ "wrong options are refused", wrong_options_are_refused },
};

CHECK_MAIN(tests)
