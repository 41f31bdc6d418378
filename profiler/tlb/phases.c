/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "phases.h"

static const struct phase nothing;

void phases_start(struct phases *phases, uint64_t time)
{
	phases->origin = time;
	phases->references = PHASE_REFERENCES;
	phases->end = time + phases->references;
	phases->last = 0;
	phases->phase[0] = nothing;
}

/* Merge pairs. */
static void halve(struct phases *phases)
{
	uint32_t count = (phases->last + 2) / 2;

	for (uint32_t i = 0; i < count; i++) {
		struct phase sum = phases->phase[2 * i];

		for (int size = 0; 2 * i + 1 <= phases->last && size < TLB_SIZES;
		     size++) {
			sum.hits[size] += phases->phase[2 * i + 1].hits[size];
			sum.walks[size] += phases->phase[2 * i + 1].walks[size];
		}
		phases->phase[i] = sum;
	}
	phases->last = count - 1;
	phases->references *= 2;
	phases->end = phases->origin + count * phases->references;
}

void phases_advance(struct phases *phases, uint64_t time)
{
	while (time - phases->origin >= PHASES * phases->references)
		halve(phases);
	while (time >= phases->end) {
		phases->phase[++phases->last] = nothing;
		phases->end += phases->references;
	}
}
