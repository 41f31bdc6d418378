/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "warm_up.h"

/* The length of a step. */
#define STEP 250000u
/*
 * TLBs are warm if, for both page sizes, no more of a step's references than this are unknown, or
 * no more than a 50th of the misses; with this many misses that this is certain, before
 * options->warm.
 */
#define FEW_UNKNOWN 5u
#define FEW_UNKNOWN_SHARE 50u
#define MANY_MISSES 10000u
/* At the end of a step that may be the last: several times the lines of a second-level cache. */
#define CACHE_WARM 250000u

void warm_up_begin(struct warm_up *warm_up, const struct window_options *options)
{
	*warm_up = (struct warm_up){
		.options = options, .step_ends = STEP, .may_be_last = true,
	};
}

void warm_up_ends(struct warm_up *warm_up)
{
	warm_up->may_be_last = true;
	warm_up->step_ends = 0;
}

bool warm_up_fills_caches(const struct warm_up *warm_up, uint64_t so_far)
{
	return warm_up->may_be_last && so_far + CACHE_WARM >= warm_up->step_ends;
}

static void add_misses(const struct tlb_counts counts[TLB_SIDES], uint64_t *misses,
		       uint64_t *unknown)
{
	*misses = *unknown = 0;
	for (int side = 0; side < TLB_SIDES; side++) {
		*misses += counts[side].stlb_misses;
		*unknown += counts[side].unknown;
	}
}

bool warm_up_step(struct warm_up *warm_up, struct tlb_model *model, uint64_t so_far)
{
	const struct window_options *options = warm_up->options;
	bool known = true, few = true;
	uint64_t all_misses = 0;

	tlb_model_flush(model);
	for (int size = 0; size < TLB_SIZES; size++) {
		uint64_t misses, unknown, step_misses, step_unknown;
		bool share;

		add_misses(model->counts[size], &misses, &unknown);
		step_misses = misses - warm_up->misses[size];
		step_unknown = unknown - warm_up->unknown[size];
		warm_up->misses[size] = misses;
		warm_up->unknown[size] = unknown;
		share = step_unknown <= step_misses / FEW_UNKNOWN_SHARE;
		all_misses += step_misses;
		few = few && (share || step_unknown <= FEW_UNKNOWN);
		known = known && (share || !step_unknown);
	}
	warm_up->step_ends = so_far + STEP;
	warm_up->may_be_last = warm_up->step_ends >= options->warm || all_misses > MANY_MISSES;
	return (known && all_misses > MANY_MISSES) || so_far >= options->most_warm ||
	       (so_far >= options->warm && few);
}
