/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Do the arms of a copy do the same work, on the pages that they should have, and nothing else? */
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "arm.h"
#include "arm_compare.h"
#include "arm_programs.h"
#include "arms.h"
#include "check.h"

static const struct arms_options options = {
	.warm_ns = 10 * MS, .measured_ns = 10 * MS, .slices = 2, .huge_page_bytes = HUGE_PAGE,
	.time_ns = 60000 * MS,
};

static void writes(int output)
{
	const uint64_t *words = table();
	uint64_t sum = 0;

	say(output);
	for (;;) {
		for (uint64_t i = 0; i < WORDS; i += 512)
			sum += words[i];
		*shared = sum;
		if (fcntl(output, F_GETFL) < 0)
			_exit(1);
	}
}

/* A call now and then. */
static void updates_and_calls(int output)
{
	uint64_t *words = table(), state = 1;

	say(output);
	for (;;) {
		for (unsigned i = 0; i < 30000000; i++) {
			state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
			words[(state >> 33) % WORDS] += state;
		}
		if (fcntl(output, F_GETFL) < 0)
			_exit(1);
	}
}

static bool can_collapse(void)
{
	void *memory = mmap(NULL, 2 * HUGE_PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *aligned = (void *)(((uintptr_t)memory + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
	bool can;

	memset(memory, 1, 2 * HUGE_PAGE);
	can = madvise(aligned, HUGE_PAGE, 25) == 0;
	munmap(memory, 2 * HUGE_PAGE);
	return can;
}

TEST(arms_do_the_same_work_on_their_pages)
{
	struct slice_rows rows = { 0 };
	struct injected injected;
	struct copy copy;
	uint64_t random = 7;

	if (!can_collapse())
		CHECK_SKIP("this kernel collapses no memory (MADV_COLLAPSE)");
	if (begin(&injected, &copy, updates) == 0) {
		CHECK_EQUAL(arms_measure(&rows, &options, &copy, NULL, 3, &random), 0);
		CHECK_EQUAL(rows.count, options.slices * ARM_KINDS);
	}
	for (size_t i = 0; i < rows.count; i++) {
		const struct slice_row *row = &rows.all[i];

		CHECK_EQUAL(row->window, 3);
		CHECK_EQUAL(row->slice, i / ARM_KINDS);
		CHECK_EQUAL(row->turn, i % ARM_KINDS);
		CHECK_EQUAL(strcmp(row->outcome, "good"), 0);
		CHECK(row->time_ns != SLICE_UNKNOWN && row->time_ns > MS);
		/* The number of the CPU, which the kernel writes for rseq(2). */
		CHECK(row->different_pages <= 2);
		CHECK(row->changed_pages > 100);
		CHECK(row->anonymous_bytes >= BYTES);
		if (row->arm == ARM_HUGE)
			CHECK(row->huge_bytes >= BYTES - 2 * HUGE_PAGE);
		else
			CHECK_EQUAL(row->huge_bytes, 0);
	}
	slice_rows_free(&rows);
	end(&injected, &copy);
}

TEST(a_slice_ends_at_a_call_at_the_latest)
{
	struct arms_options until_call = options;
	struct slice_rows rows = { 0 };
	struct injected injected;
	struct copy copy;
	uint64_t random = 7;

	until_call.measured_ns = 60000 * MS;
	if (begin(&injected, &copy, updates_and_calls) == 0) {
		CHECK_EQUAL(arms_measure(&rows, &until_call, &copy, NULL, 0, &random), 0);
		CHECK(rows.count > 0);
		/* It may come to its call while it warms its caches, or soon after that. */
		if (strcmp(rows.all[0].outcome, "call") != 0) {
			CHECK_EQUAL(rows.count, ARM_KINDS);
			CHECK(strcmp(rows.all[0].outcome, "good") == 0 ||
			      strcmp(rows.all[0].outcome, "short") == 0);
			CHECK(rows.all[0].time_ns != SLICE_UNKNOWN);
		}
		CHECK_EQUAL(rows.all[0].call, 72);	/* fcntl */
	}
	slice_rows_free(&rows);
	end(&injected, &copy);
}

static const char *outcome_of(void (*program)(int), int64_t *call)
{
	struct slice_rows rows = { 0 };
	const char *outcome = "none";
	struct injected injected;
	struct copy copy;
	uint64_t random = 7;

	if (begin(&injected, &copy, program) == 0) {
		CHECK_EQUAL(arms_measure(&rows, &options, &copy, NULL, 0, &random), 0);
		CHECK(rows.count > 0);
		outcome = rows.all[0].outcome;
		*call = rows.all[0].call;
	}
	slice_rows_free(&rows);
	end(&injected, &copy);
	return outcome;
}

TEST(what_cannot_be_measured_has_its_reason)
{
	int64_t call = 0;

	CHECK_EQUAL(strcmp(outcome_of(spins, &call), "tight"), 0);
	CHECK_EQUAL(call, -1);
	CHECK_EQUAL(strcmp(outcome_of(writes, &call), "call"), 0);
	CHECK_EQUAL(call, 72);	/* fcntl */
}

TEST(an_arm_that_is_killed_is_gone)
{
	struct arm_stretch stretch = { 0 };
	struct injected injected;
	struct copy copy;
	struct arm arm;

	if (begin(&injected, &copy, updates) == 0) {
		CHECK_EQUAL(arm_fork(&arm, &copy), 0);
		kill(arm.copy.pid, SIGKILL);
		CHECK_EQUAL(arm_run(&arm, NULL, 50 * MS, &stretch), ARM_GONE);
		arm_kill(&arm, &copy);
		/* The copy can have another one. */
		CHECK_EQUAL(arm_fork(&arm, &copy), 0);
		arm_kill(&arm, &copy);
	}
	end(&injected, &copy);
}

/* Odd pages: of those that nobody wrote, a sample of each eighth has none of them. */
#define WRITTEN 100u
#define WRITTEN_EVERY 41u

static void write_pages(const struct arm *arm, uint64_t value)
{
	for (uint64_t i = 0; i < WRITTEN; i++) {
		const uint64_t page = WRITTEN_EVERY * 2 * i % (BYTES / 4096) | 1;

		CHECK_EQUAL(copy_write(&arm->copy, *shared + page * 4096, &value, sizeof(value)), 0);
	}
}

TEST(what_the_pilot_wrote_is_compared)
{
	struct arm_difference found;
	struct page_runs pages = { 0 }, written = { 0 };
	struct injected injected;
	struct arm pilot, one, other;
	struct copy copy;
	uint64_t own;

	if (begin(&injected, &copy, reads) == 0) {
		CHECK_EQUAL(page_runs_read(&pages, copy.pid), 0);
		CHECK_EQUAL(arm_fork(&pilot, &copy), 0);
		CHECK_EQUAL(arm_fork(&one, &copy), 0);
		CHECK_EQUAL(arm_fork(&other, &copy), 0);
		arm_compare(&copy, &pilot, &one, &other, &pages, &found);
		/* The kernel writes the CPU to a thread's own memory (rseq): one page at most. */
		CHECK(found.changed <= 1);
		CHECK(found.different <= 1);
		/* Of pages that nobody wrote, a sample. */
		CHECK(found.compared > 0 && found.compared < pages.bytes / 4096 / 2);
		/* Its stack is its own since the fork. */
		CHECK_EQUAL(page_runs_exclusive(&written, &pages, pilot.copy.pid), 0);
		own = written.bytes;
		CHECK(own <= 4 * 4096);
		page_runs_free(&written);
		write_pages(&pilot, 1);
		CHECK_EQUAL(page_runs_exclusive(&written, &pages, pilot.copy.pid), 0);
		CHECK_EQUAL(written.bytes, own + WRITTEN * 4096);
		write_pages(&one, 1);
		write_pages(&other, 1);
		arm_compare(&copy, &pilot, &one, &other, &pages, &found);
		CHECK(found.changed == WRITTEN || found.changed == WRITTEN + 1);
		CHECK(found.different <= 1);
		write_pages(&other, 2);
		arm_compare(&copy, &pilot, &one, &other, &pages, &found);
		CHECK(found.different == WRITTEN || found.different == WRITTEN + 1);
		arm_kill(&pilot, &copy);
		arm_kill(&one, &copy);
		arm_kill(&other, &copy);
	}
	page_runs_free(&pages);
	page_runs_free(&written);
	end(&injected, &copy);
}

/* What arms have already is not prepared again. */
TEST(new_pages_are_known)
{
	struct page_run now[] = { { 0, 1, 0, 9, 3 }, { 2, 4, 0, 9, 3 }, { 6, 8, 0, 9, 3 } };
	struct page_run then[] = { { 0, 1, 0, 9, 3 }, { 2, 3, 0, 9, 3 }, { 5, 8, 0, 9, 3 } };
	const struct page_runs all = { now, 3, 3, 5 }, before = { then, 3, 3, 5 };
	const struct page_runs none = { NULL, 0, 0, 0 };
	struct page_runs fresh;

	CHECK_EQUAL(page_runs_new(&fresh, &all, &before), 0);
	CHECK_EQUAL(fresh.count, 2);
	CHECK_EQUAL(fresh.bytes, 4);
	CHECK_EQUAL(fresh.all[0].start, 2);
	CHECK_EQUAL(fresh.all[0].end, 4);
	CHECK_EQUAL(fresh.all[1].start, 6);
	page_runs_free(&fresh);
	CHECK_EQUAL(page_runs_new(&fresh, &all, &all), 0);
	CHECK_EQUAL(fresh.count, 0);
	page_runs_free(&fresh);
	CHECK_EQUAL(page_runs_new(&fresh, &all, &none), 0);
	CHECK_EQUAL(fresh.count, 3);
	page_runs_free(&fresh);
}

/* A slice more would end after the time: the fewest do. */
TEST(little_time_is_for_the_fewest_slices)
{
	struct arms_options short_of_time = options;
	struct slice_rows rows = { 0 };
	struct injected injected;
	struct copy copy;
	uint64_t random = 7;

	short_of_time.slices = ARMS_FEWEST_SLICES + 2;
	short_of_time.enough_ns = 1;
	if (begin(&injected, &copy, updates) == 0) {
		CHECK_EQUAL(arms_measure(&rows, &short_of_time, &copy, NULL, 0, &random), 0);
		CHECK_EQUAL(rows.count, ARMS_FEWEST_SLICES * ARM_KINDS);
	}
	slice_rows_free(&rows);
	end(&injected, &copy);
}

CHECK_MAIN
