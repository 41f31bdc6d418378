/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which branches can be learnt? */
#include "timing.h"
#include "timing/branches.h"

static struct branches branches;

#define LEARNING 20000
#define COUNTED 10000

/* Of COUNTED outcomes, those that were not predicted after LEARNING others. */
static int not_predicted(bool (*outcome)(int number))
{
	int wrong = 0;

	branches_init(&branches);
	for (int i = 0; i < LEARNING + COUNTED; i++)
		wrong += !branch_predicted(&branches, 0x401234, outcome(i)) &&
			 i >= LEARNING;
	return wrong;
}

static bool always(int number) { (void)number; return true; }
static bool never(int number) { (void)number; return false; }
static bool alternating(int number) { return number % 2; }
static bool short_loop(int number) { return number % 8 != 7; }
static bool long_loop(int number) { return number % 1000 != 999; }
static bool by_chance(int number) { (void)number; return random_number() >> 63; }

static bool mostly(int number)
{
	(void)number;
	return random_number() % 10 != 0;
}

TEST(one_way_is_learnt)
{
	CHECK_EQUAL(not_predicted(always), 0);
	CHECK_EQUAL(not_predicted(never), 0);
}

TEST(rhythms_are_learnt)
{
	CHECK(not_predicted(alternating) <= COUNTED / 100);
	CHECK(not_predicted(short_loop) <= COUNTED / 100);
}

/* Its end is beyond any history, but nothing else of it is wrong. */
TEST(a_long_loop_is_wrong_at_its_end)
{
	CHECK(not_predicted(long_loop) <= 3 * COUNTED / 1000);
}

TEST(chance_is_not_learnt)
{
	int wrong = not_predicted(by_chance);

	CHECK(wrong > COUNTED * 45 / 100 && wrong < COUNTED * 55 / 100);
	/* No worse than always the likelier way, but for the learning of it. */
	wrong = not_predicted(mostly);
	CHECK(wrong > COUNTED * 8 / 100 && wrong < COUNTED * 20 / 100);
}

TEST(branches_are_distinguished)
{
	int wrong = 0;

	branches_init(&branches);
	for (int i = 0; i < LEARNING + COUNTED; i++)
		for (uint64_t branch = 0; branch < 50; branch++)
			wrong += !branch_predicted(&branches, 0x400000 + branch * 16,
						   branch % 3 == 0) && i >= LEARNING;
	CHECK(wrong <= COUNTED * 50 / 1000);
}

/* What others do tells nothing of it, and does not disturb. */
TEST(one_way_is_learnt_next_to_a_random_one)
{
	int wrong = 0;

	branches_init(&branches);
	for (int i = 0; i < LEARNING + COUNTED; i++) {
		for (uint64_t branch = 1; branch < 15; branch++)
			branch_predicted(&branches, 0x400000 + branch * 16,
					 random_number() >> 63);
		wrong += !branch_predicted(&branches, 0x400000, true) && i >= LEARNING;
	}
	CHECK(wrong <= COUNTED / 50);
}

/* Of COUNTED targets, those that were not predicted after LEARNING others. */
static int targets_not_predicted(uint64_t (*target)(int number))
{
	int wrong = 0;

	branches_init(&branches);
	for (int i = 0; i < LEARNING + COUNTED; i++)
		wrong += !target_predicted(&branches, 0x405678, target(i)) &&
			 i >= LEARNING;
	return wrong;
}

static uint64_t one_target(int number) { (void)number; return 0x500000; }
static uint64_t two_targets(int number) { return 0x500000 + (uint64_t)(number % 2) * 64; }

static uint64_t any_target(int number)
{
	(void)number;
	return 0x500000 + random_number() % 64 * 64;
}

TEST(targets)
{
	CHECK_EQUAL(targets_not_predicted(one_target), 0);
	CHECK_EQUAL(targets_not_predicted(two_targets), 0);
	CHECK(targets_not_predicted(any_target) > COUNTED * 9 / 10);
}

TEST(nothing_is_known_of_a_target_at_first)
{
	branches_init(&branches);
	CHECK(!target_predicted(&branches, 0x405678, 0x500000));
}

CHECK_MAIN
