/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "level.h"

void tlb_level_init(struct tlb_level *level, struct tlb_geometry geometry,
		    uint64_t *pages)
{
	level->pages = pages;
	level->sets = geometry.entries ? geometry.entries / geometry.ways : 0;
	level->ways = geometry.ways;
	for (uint32_t i = 0; i < geometry.entries; i++)
		pages[i] = TLB_NO_PAGE;
}
