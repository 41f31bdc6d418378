/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Do copies cost no more than they may, and does all CPU time have the same chance? */
#include "check.h"

#include <stdint.h>

#include "budget.h"

#define SECOND UINT64_C(1000000000)
#define MEBIBYTE (UINT64_C(1) << 20)

/* A program whose copies all cost the same.  Returns how many are taken in `cpu_ns`. */
static uint64_t run(struct budget *budget, uint64_t cpu_ns, uint64_t pause_ns, uint64_t faults)
{
	const struct copy_cost cost = { pause_ns, faults, 512 * MEBIBYTE };
	uint64_t random = 1, begin = 0, length, copies = 0;

	for (;;) {
		length = budget_stratum(budget, begin, cost.resident_bytes);
		if (length == UINT64_MAX ||
		    begin + budget_random(&random, length) >= cpu_ns)
			return copies;
		budget_charge(budget, &cost);
		copies++;
		begin += length;
	}
}

TEST(copies_cost_no_more_than_their_share)
{
	struct budget budget = { .fraction = 0.05, .fault_ns = BUDGET_FAULT_NS };
	uint64_t copies = run(&budget, 60 * SECOND, 14000000, 5000);

	/* 20 ms each: 3 s is 150 of them. */
	CHECK(copies >= 60);
	CHECK(copies <= 150);
	CHECK((double)budget.spent_ns <= 0.055 * 60 * (double)SECOND);
}

TEST(a_short_program_is_copied_too)
{
	struct budget budget = { .fraction = 0.05, .fault_ns = BUDGET_FAULT_NS };
	uint64_t copies = run(&budget, 3 * SECOND / 2, 5000000, 1000);

	/* 6 ms each: nine tenths of 75 ms are 11 of them. */
	CHECK(copies >= 7);
	CHECK(copies <= 12);
}

/* Cheap ones are not taken without end: each tells less than the one before. */
TEST(cheap_copies_are_not_taken_without_end)
{
	struct budget budget = { .fraction = 0.05, .fault_ns = BUDGET_FAULT_NS };
	uint64_t copies = run(&budget, 1000 * SECOND, 100000, 0);

	CHECK(copies >= 128);
	CHECK(copies <= 1000);
}

TEST(a_copy_that_would_stop_a_thread_for_too_long_is_not_made)
{
	struct budget budget = { .fraction = 0.05, .most_pause_ns = 5000000 };

	/* 28 ms a GiB, before any copy. */
	CHECK(budget_pause_is_too_long(&budget, 512 * MEBIBYTE));
	CHECK(!budget_pause_is_too_long(&budget, 64 * MEBIBYTE));
	/* What was seen counts, and is forgotten again. */
	budget_note_pause(&budget, 8000000, 64 * MEBIBYTE);
	CHECK(budget_pause_is_too_long(&budget, 64 * MEBIBYTE));
	for (int i = 0; i < 6; i++)
		budget_pause_is_too_long(&budget, 64 * MEBIBYTE);
	CHECK(!budget_pause_is_too_long(&budget, 64 * MEBIBYTE));
	/* One that was shorter counts in part. */
	budget_note_pause(&budget, 8000000, 64 * MEBIBYTE);
	budget_note_pause(&budget, 1000000, 64 * MEBIBYTE);
	CHECK(budget_pause_is_too_long(&budget, 64 * MEBIBYTE));
	budget_note_pause(&budget, 1000000, 64 * MEBIBYTE);
	CHECK(!budget_pause_is_too_long(&budget, 64 * MEBIBYTE));
	budget.most_pause_ns = 0;
	CHECK(!budget_pause_is_too_long(&budget, 64 * 1024 * MEBIBYTE));
}

TEST(without_a_budget_there_is_no_copy)
{
	const struct budget budget = { .fraction = 0 };

	CHECK(budget_stratum(&budget, 0, MEBIBYTE) == UINT64_MAX);
}

/* A copy was more expensive than foreseen: the next one has to wait. */
TEST(what_was_too_dear_is_made_up_for)
{
	struct budget budget = { .fraction = 0.05, .fault_ns = BUDGET_FAULT_NS };
	const struct copy_cost dear = { SECOND, 0, 512 * MEBIBYTE };

	budget_charge(&budget, &dear);
	CHECK(budget_stratum(&budget, SECOND, 512 * MEBIBYTE) >= 19 * SECOND);
	budget_charge_late(&budget, 1000000);
	CHECK(budget_stratum(&budget, SECOND, 512 * MEBIBYTE) >= 29 * SECOND);
}

/* Memory makes a copy dear, not what its worker does. */
TEST(a_worker_costs_the_same_however_large_the_program_is)
{
	struct budget budget = { .fraction = 0.05, .fault_ns = BUDGET_FAULT_NS };
	const struct copy_cost small = { SECOND / 1000, 0, 32 * MEBIBYTE };

	budget_charge(&budget, &small);
	budget_charge_work(&budget, 30 * SECOND / 1000);
	CHECK_EQUAL(budget.spent_ns, 31 * SECOND / 1000);
	CHECK(budget_predict(&budget, 1024 * MEBIBYTE) >= 61 * SECOND / 1000);
	CHECK(budget_predict(&budget, 1024 * MEBIBYTE) <= 63 * SECOND / 1000);
}

TEST(a_number_of_copies_is_not_exceeded_nor_used_up)
{
	struct budget even = { .most_copies = 50, .expected_cpu_ns = 10 * SECOND };
	struct budget open = { .most_copies = 100 };

	CHECK(run(&even, 10 * SECOND, SECOND, 0) >= 49);
	CHECK_EQUAL(even.copies, 50);
	CHECK(run(&open, SECOND, SECOND, 0) >= 50);
	/* However long it runs, some are left for what follows. */
	CHECK(run(&open, 1000 * SECOND, SECOND, 0) < 100);
}

/* Weighted by the strata's lengths, each tenth of the time has its share, whatever grows. */
TEST(all_cpu_time_has_the_same_chance)
{
	const uint64_t tenth = SECOND;
	double share[10] = { 0 };
	const unsigned runs = 400;

	for (unsigned i = 0; i < runs; i++) {
		struct budget budget = { .fraction = 0.05, .fault_ns = BUDGET_FAULT_NS };
		const struct copy_cost cost = { 3000000, 0, 64 * MEBIBYTE };
		uint64_t random = i * 977 + 1;

		for (uint64_t begin = 0; begin < 10 * tenth;) {
			uint64_t length = budget_stratum(&budget, begin, 64 * MEBIBYTE);
			uint64_t at = begin + budget_random(&random, length);

			if (at < 10 * tenth) {
				share[at / tenth] += (double)length / (double)tenth / runs;
				budget_charge(&budget, &cost);
			}
			begin += length;
		}
	}
	for (unsigned i = 0; i < 10; i++) {
		CHECK(share[i] > 0.93);
		CHECK(share[i] < 1.07);
	}
}

CHECK_MAIN
