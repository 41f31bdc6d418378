/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "branches.h"

/* Outcomes that the second table's index is made from. */
#define HISTORY_BITS 14

void branches_init(struct branches *branches)
{
	branches->history = 0;
	branches->path = 0;
	for (uint32_t i = 0; i < BRANCH_COUNTERS; i++)
		branches->local[i] = branches->global[i] =
			branches->choice[i] = 1;
	for (uint32_t i = 0; i < BRANCH_TARGETS; i++)
		branches->targets[i] = 0;
}

static uint64_t mix(uint64_t x)
{
	x *= UINT64_C(0x9e3779b97f4a7c15);
	return x >> 40;
}

static void count(uint8_t *counter, bool up)
{
	if (up && *counter < 3)
		++*counter;
	else if (!up && *counter > 0)
		--*counter;
}

bool branch_predicted(struct branches *branches, uint64_t branch, bool taken)
{
	uint64_t history = branches->history & ((1u << HISTORY_BITS) - 1);
	uint64_t here = mix(branch);
	uint8_t *local = &branches->local[here % BRANCH_COUNTERS];
	uint8_t *global = &branches->global[(here ^ history) % BRANCH_COUNTERS];
	uint8_t *choice = &branches->choice[here % BRANCH_COUNTERS];
	bool by_local = (*local > 1) == taken, by_global = (*global > 1) == taken;
	bool predicted = *choice > 1 ? by_global : by_local;

	if (by_local != by_global)
		count(choice, by_global);
	count(local, taken);
	count(global, taken);
	branches->history = branches->history << 1 | taken;
	return predicted;
}

bool target_predicted(struct branches *branches, uint64_t branch, uint64_t target)
{
	uint64_t *expected = &branches->targets[mix(branch ^ branches->path) %
						BRANCH_TARGETS];
	bool predicted = *expected == target;

	*expected = target;
	branches->path = (branches->path << 4 ^ mix(target)) & 0xffffffff;
	return predicted;
}
