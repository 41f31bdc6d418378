/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "level.h"

void tlb_level_init(struct tlb_level *level, struct tlb_geometry geometry,
		    uint64_t *pages)
{
	level->pages = pages;
	level->sets = geometry.entries ? geometry.entries / geometry.ways : 0;
	level->ways = geometry.ways;
	level->fold = TLB_NO_FOLD;
	for (uint32_t i = 0; i < geometry.entries; i++)
		pages[i] = TLB_NO_PAGE;
}

void tlb_level_fold(struct tlb_level *level)
{
	uint32_t bits = 0;

	if (level->sets < 2 || level->sets & (level->sets - 1))
		return;
	while (1u << bits < level->sets)
		bits++;
	level->fold = bits;
}
