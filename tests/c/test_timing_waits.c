/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which address's translation did the core wait for, and how long? */
#include "timing.h"

#define FEW CYCLES(4)
#define APART (BASE_PAGE + 64)
#define LOADS 50u

static ticks paid_for[LOADS], paid_in_all;
static bool paid_on_huge;

static void note(bool huge, uint64_t address, ticks time)
{
	paid_for[address / APART] += time;
	paid_in_all += time;
	paid_on_huge = huge;
}

static struct rig *start(bool huge)
{
	struct timing_config config = plain_config();
	struct rig *rig = make_rig(&config, huge);

	for (unsigned i = 0; i < LOADS; i++)
		paid_for[i] = 0;
	paid_in_all = 0;
	rig->core.waited = note;
	return rig;
}

/* Loads of a chain, of which some walk; when all have left. */
static ticks chain(struct rig *rig, unsigned walks_every)
{
	ticks ready = 0;

	for (unsigned i = 0; i < LOADS; i++) {
		if (walks_every && i % walks_every == 0)
			translation_missed(&rig->core.translation, i * APART,
					   MISS_WALK);
		ready = load(rig, i * APART, ready);
	}
	return all_left(rig);
}

TEST(nothing_is_paid_without_misses)
{
	struct rig *rig = start(false);

	chain(rig, 0);
	CHECK_EQUAL(paid_in_all, 0);
	drop_rig(rig);
}

TEST(a_chain_pays_what_its_walks_take)
{
	struct rig *rig = start(false);
	ticks without = chain(rig, 0), with;

	drop_rig(rig);
	rig = start(false);
	with = chain(rig, 5);
	CHECK(about(paid_in_all, with - without, FEW));
	CHECK(with > without + CYCLES(1000));
	CHECK(!paid_on_huge);
	/* Each walk is paid by its own address. */
	for (unsigned i = 0; i < LOADS; i++)
		CHECK((paid_for[i] > 0) == (i % 5 == 0));
	drop_rig(rig);
}

TEST(the_page_size_is_reported)
{
	struct rig *rig = start(true);

	chain(rig, LOADS);
	CHECK(paid_on_huge);
	CHECK_EQUAL(paid_in_all, paid_for[0]);
	drop_rig(rig);
}

TEST(what_overlaps_is_paid_once)
{
	struct rig *rig = start(false);
	ticks end;

	for (unsigned i = 0; i < 2; i++)
		translation_missed(&rig->core.translation, i * APART, MISS_WALK);
	for (unsigned i = 0; i < 2; i++)
		load(rig, i * APART, 0);
	end = all_left(rig);
	CHECK(paid_in_all > 0);
	CHECK(paid_in_all < end);
	CHECK(paid_for[0] > paid_for[1]);
	drop_rig(rig);
}

CHECK_MAIN
