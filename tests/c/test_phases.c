/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "check.h"
#include "phases.h"

static uint64_t total(const struct phases *phases, enum tlb_size size)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i <= phases->last; i++)
		sum += phases->phase[i].walks[size] + phases->phase[i].hits[size];
	return sum;
}

TEST(misses_are_of_their_phase)
{
	static struct phases phases;

	phases_start(&phases, 1000);
	phases_note(&phases, 1000, TLB_BASE, true);
	phases_note(&phases, 1000 + PHASE_REFERENCES - 1, TLB_BASE, true);
	phases_note(&phases, 1000 + 5 * PHASE_REFERENCES, TLB_BASE, true);
	phases_note(&phases, 1000 + 5 * PHASE_REFERENCES, TLB_HUGE, false);
	CHECK_EQUAL(phases.last, 5);
	CHECK_EQUAL(phases.phase[0].walks[TLB_BASE], 2);
	CHECK_EQUAL(phases.phase[1].walks[TLB_BASE], 0);
	CHECK_EQUAL(phases.phase[5].walks[TLB_BASE], 1);
	CHECK_EQUAL(phases.phase[5].hits[TLB_HUGE], 1);
}

TEST(phases_double_and_lose_nothing)
{
	static struct phases phases;
	const uint64_t step = PHASE_REFERENCES / 2, steps = 5 * PHASES + 3;

	phases_start(&phases, 7);
	for (uint64_t i = 0; i < steps; i++)
		phases_note(&phases, 7 + i * step, TLB_BASE, true);
	CHECK_EQUAL(phases.references, 4 * PHASE_REFERENCES);
	CHECK(phases.last < PHASES);
	CHECK_EQUAL(total(&phases, TLB_BASE), steps);
	CHECK_EQUAL(total(&phases, TLB_HUGE), 0);
	/* Eight steps fit in each phase, all but the last. */
	for (uint32_t i = 0; i < phases.last; i++)
		CHECK_EQUAL(phases.phase[i].walks[TLB_BASE], 8);
}

TEST(a_long_silence_is_many_phases)
{
	static struct phases phases;

	phases_start(&phases, 0);
	phases_note(&phases, 1, TLB_HUGE, true);
	phases_note(&phases, 1000 * PHASES * PHASE_REFERENCES, TLB_HUGE, true);
	CHECK(phases.last < PHASES);
	CHECK(phases.last >= PHASES / 4);
	CHECK_EQUAL(phases.phase[0].walks[TLB_HUGE], 1);
	CHECK_EQUAL(phases.phase[phases.last].walks[TLB_HUGE], 1);
	CHECK_EQUAL(total(&phases, TLB_HUGE), 2);
	CHECK_EQUAL(phases.end, (phases.last + 1) * phases.references);
}

CHECK_MAIN
