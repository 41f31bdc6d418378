/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "level.h"

void tlb_level_init(struct tlb_level *level, struct tlb_geometry geometry,
		    uint64_t *slots)
{
	uint32_t sets = geometry.entries ? geometry.entries / geometry.ways : 0;

	level->slots = slots;
	level->sets = sets;
	level->ways = geometry.ways;
	level->mask = sets && (sets & (sets - 1)) == 0 ? sets - 1 : 0;
	tlb_level_flush(level);
}

void tlb_level_flush(struct tlb_level *level)
{
	for (size_t i = 0; i < (size_t)level->sets * level->ways; i++)
		level->slots[i] = TLB_NO_PAGE;
}
