/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "cores.h"
#include "attribution.h"

#include "pub_tool_mallocfree.h"

static struct cache last_level[MOST_CORES];	/* all threads' */

const struct timing_config *config_of(UInt core, UInt *shift)
{
	if (core < TLB_SIZES) {
		*shift = options.tlb.page_shift[core];
		return &options.windows.core;
	}
	*shift = options.view_configs[core - TLB_SIZES].page_shift;
	return &options.views[core - TLB_SIZES].core;
}

static void make_last_level(void)
{
	UInt ways, bytes, shift;

	for (UInt core = 0; core < core_count(); core++) {
		bytes = cache_size_within(config_of(core, &shift)->l3_bytes,
					  &ways);
		cache_init(&last_level[core], bytes, ways,
			   VG_(malloc)("tlbsim.lines",
				       cache_lines(bytes) *
					       sizeof(struct cache_line)));
	}
}

struct timing *timing_make(void)
{
	const UInt base = options.tlb.page_shift[TLB_BASE];
	struct timing *timing = VG_(malloc)("tlbsim.timing", sizeof(*timing));
	struct cache_line *next;
	SizeT lines = 0;
	UInt shift;

	if (!last_level[0].lines)
		make_last_level();
	timing->cores = VG_(malloc)("tlbsim.cores",
				    core_count() * sizeof(*timing->cores));
	for (UInt core = 0; core < core_count(); core++)
		lines += memory_lines(config_of(core, &shift));
	next = timing->lines = VG_(malloc)("tlbsim.lines",
					   lines * sizeof(*timing->lines));
	for (UInt core = 0; core < core_count(); core++) {
		const struct timing_config *config = config_of(core, &shift);

		core_init(&timing->cores[core], config, next, &last_level[core],
			  base, shift, shift > base);
		next += memory_lines(config);
	}
	for (Int size = 0; options.attribute && size < TLB_SIZES; size++)
		timing->cores[size].waited = attribution_waited;
	branches_init(&timing->branches);
	wrong_paths_init(&timing->paths);
	return timing;
}

void timing_drop(struct timing *timing)
{
	if (!timing)
		return;
	VG_(free)(timing->lines);
	VG_(free)(timing->cores);
	VG_(free)(timing);
}
