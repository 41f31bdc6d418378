/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A TLB model as an engine drives it, and one that is too simple to be wrong. */
#ifndef TLBCOST_TLB_RIG_H
#define TLBCOST_TLB_RIG_H

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "model.h"

struct rig {
	struct tlb_model model;
	struct tlb_views views;
	struct tlb_filter data, code;
	void *memory, *views_memory;
	uint64_t time;
};

/* A model watched by this many views, maybe none. */
static inline struct rig *make_rig(const struct tlb_config *config,
				   const struct tlb_view_config *views, uint32_t count,
				   bool filter)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	rig->memory = malloc(tlb_model_bytes(config));
	tlb_model_init(&rig->model, config, rig->memory,
		       filter ? &rig->data : NULL, filter ? &rig->code : NULL);
	if (count) {
		rig->views_memory = malloc(tlb_views_bytes(views, count, config));
		tlb_views_init(&rig->views, views, count, config, rig->views_memory);
		tlb_model_watch(&rig->model, &rig->views);
	}
	return rig;
}

static inline void drop_rig(struct rig *rig)
{
	free(rig->memory);
	free(rig->views_memory);
	free(rig);
}

/* A reference as an engine makes it: through the filter if it can. */
static inline void reference(struct rig *rig, uint64_t address, enum tlb_side side)
{
	struct tlb_first *first = side == TLB_FETCH ? &rig->model.code :
						      &rig->model.data;
	uint64_t time = ++rig->time;
	struct tlb_filter_slot *slot;

	if (first->slots.filter) {
		slot = &first->slots.filter->slot[tlb_filter_index(&first->slots, address)];
		if (slot->address ==
		    address >> first->slots.base_shift << first->slots.base_shift) {
			slot->time = time;
			return;
		}
	}
	if (side == TLB_FETCH)
		tlb_model_fetch(&rig->model, address, time);
	else
		tlb_model_data(&rig->model, address, side, time);
}

static uint64_t state = 88172645463325252u;

static inline uint64_t random_number(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

/* One reference in eight is a fetch. */
static inline enum tlb_side mixed_side(void)
{
	unsigned side = (unsigned)(random_number() >> 20) % 8;

	return side == 7 ? TLB_FETCH : (enum tlb_side)(side & 1);
}

/* Some pages often, some seldom; phases of frequent and of rare misses. */
static inline uint64_t mixed_address(unsigned i)
{
	uint64_t r = random_number();

	if (i / 5000 % 3 == 1)
		return (r >> 8 & 0xffffffff) << 8;
	if (i / 5000 % 3 == 2 && (r & 31))
		return 0x7f0000000000 + (r >> 8 & 0x3fff);
	switch (r & 15) {
	case 0:
		return (r >> 8 & 0xfff) << 12;
	case 1:
		return (r >> 8 & 0x1f) << 21;
	case 2:
		return 0x1000000000 + ((r >> 8 & 0x7) << 30);
	case 3:
		return (r >> 8 & 0xff) << 16;
	case 4:
	case 5:
	case 6:
		return 0x7f0000000000 + (r >> 8 & 0x7fff);
	default:
		return 0x10000000 + (r >> 8 & 0x3ffff);
	}
}

/* The simplest LRU sets: the whole history of each, searched backwards. */
struct naive_level {
	uint64_t pages[512][96];
	unsigned held[512];
};

static inline bool naive_access(struct naive_level *level, struct tlb_geometry geometry,
				uint64_t page)
{
	uint64_t *pages, set;
	unsigned at = 0, *held;
	bool hit;

	if (!geometry.entries)
		return false;
	set = page % (geometry.entries / geometry.ways);
	pages = level->pages[set];
	held = &level->held[set];
	while (at < *held && pages[at] != page)
		at++;
	hit = at < *held;
	if (!hit) {
		*held += *held < geometry.ways;
		at = *held - 1;
	}
	memmove(pages + 1, pages, at * sizeof(*pages));
	pages[0] = page;
	return hit;
}

struct naive_machine {
	struct naive_level l1d, l1i, stlb, stlb_code;
	struct tlb_counts counts[TLB_SIDES];
};

static inline void naive_reference(struct naive_machine *machine,
				   const struct tlb_view_config *config,
				   uint64_t address, enum tlb_side side)
{
	bool code = side == TLB_FETCH, apart = code && config->split;
	struct tlb_geometry second = apart ? config->stlb_code : config->stlb;
	uint64_t page = address >> config->page_shift;

	if (code ? naive_access(&machine->l1i, config->l1i, page) :
		   naive_access(&machine->l1d, config->l1d, page))
		return;
	machine->counts[side].l1_misses++;
	if (config->folded && second.entries > second.ways)
		page ^= page / (second.entries / second.ways);
	if (naive_access(apart ? &machine->stlb_code : &machine->stlb, second, page))
		machine->counts[side].stlb_hits++;
	else
		machine->counts[side].stlb_misses++;
}

static inline void check_counts(const struct tlb_counts *got,
				const struct tlb_counts *want)
{
	for (int side = 0; side < TLB_SIDES; side++) {
		CHECK(want[side].l1_misses > 0);
		CHECK_EQUAL(got[side].l1_misses, want[side].l1_misses);
		CHECK_EQUAL(got[side].stlb_hits, want[side].stlb_hits);
		CHECK_EQUAL(got[side].stlb_misses, want[side].stlb_misses);
	}
}

#endif
