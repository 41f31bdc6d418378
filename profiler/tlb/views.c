/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "views.h"

static bool same_geometry(struct tlb_geometry a, struct tlb_geometry b)
{
	return a.entries == b.entries && (!a.entries || a.ways == b.ways);
}

/* Do they have the same TLBs? */
static bool alike(const struct tlb_view_config *a,
		  const struct tlb_view_config *b)
{
	return a->page_shift == b->page_shift &&
	       same_geometry(a->l1d, b->l1d) && same_geometry(a->l1i, b->l1i) &&
	       same_geometry(a->stlb, b->stlb) && a->split == b->split &&
	       (!a->split || same_geometry(a->stlb_code, b->stlb_code)) &&
	       a->folded == b->folded && a->mapped == b->mapped &&
	       (!a->mapped || a->rest == b->rest);
}

/*
 * The bit of a first level: that of the machine at hand if it has an identical one, or of a
 * view.
 */
static uint32_t bit_of(struct tlb_view_levels *levels,
		       const struct tlb_view_config *config,
		       struct tlb_geometry geometry,
		       const struct tlb_config *at_hand,
		       const struct tlb_geometry there[TLB_SIZES])
{
	for (uint32_t size = 0; size < TLB_SIZES && !config->mapped; size++)
		if (config->page_shift == at_hand->page_shift[size] &&
		    same_geometry(geometry, there[size]))
			return size == TLB_BASE ? TLB_BASE_MISS : TLB_HUGE_MISS;
	return 1u << (tlb_view_levels_add(levels, geometry, config->page_shift,
					  config->mapped,
					  at_hand->page_shift[TLB_BASE]) +
		      TLB_VIEWS_SHIFT);
}

static void choose(struct tlb_views *views,
		   const struct tlb_view_config *configs, uint32_t count,
		   const struct tlb_config *at_hand)
{
	tlb_view_levels_start(&views->data);
	tlb_view_levels_start(&views->code);
	views->count = count;
	views->base_followed = false;
	for (uint32_t i = 0; i < count; i++) {
		const struct tlb_view_config *config = &configs[i];
		struct tlb_view *view = &views->view[i];

		view->page_shift = config->page_shift;
		view->split = config->split;
		view->mapped = config->mapped;
		view->followed = false;
		view->rest = config->rest;
		view->data_bit = bit_of(&views->data, config, config->l1d,
					at_hand, at_hand->l1d);
		view->code_bit = bit_of(&views->code, config, config->l1i,
					at_hand, at_hand->l1i);
		for (view->like = 0; !alike(&configs[view->like], config);)
			view->like++;
		if (!view->mapped)
			continue;
		if (view->rest == TLB_REST_BASE) {
			views->base_followed = true;
			continue;
		}
		view->rest = views->view[view->rest].like;
		views->view[view->rest].followed = true;
	}
}

size_t tlb_views_bytes(const struct tlb_view_config *configs, uint32_t count,
		       const struct tlb_config *at_hand)
{
	struct tlb_views views;
	size_t bytes;

	choose(&views, configs, count, at_hand);
	bytes = tlb_view_levels_bytes(&views.data) + tlb_view_levels_bytes(&views.code);
	for (uint32_t i = 0; i < count; i++)
		bytes += sizeof(uint64_t) *
			 (configs[i].stlb.entries +
			  (configs[i].split ? configs[i].stlb_code.entries : 0));
	return bytes;
}

static uint64_t *second_level(struct tlb_level *level,
			      struct tlb_geometry geometry, bool folded,
			      uint64_t *pages)
{
	tlb_level_init(level, geometry, pages);
	if (folded)
		tlb_level_fold(level);
	return pages + geometry.entries;
}

void tlb_views_init(struct tlb_views *views,
		    const struct tlb_view_config *configs, uint32_t count,
		    const struct tlb_config *at_hand, void *memory)
{
	uint64_t *pages;

	choose(views, configs, count, at_hand);
	views->missed = NULL;
	views->waiting_count = 0;
	tlb_view_levels_init(&views->data, memory);
	memory = (char *)memory + tlb_view_levels_bytes(&views->data);
	tlb_view_levels_init(&views->code, memory);
	pages = (uint64_t *)((char *)memory + tlb_view_levels_bytes(&views->code));
	for (uint32_t i = 0; i < count; i++) {
		struct tlb_view *view = &views->view[i];
		const struct tlb_view_config *config = &configs[i];

		pages = second_level(&view->stlb, config->stlb, config->folded,
				     pages);
		if (config->split)
			pages = second_level(&view->stlb_code,
					     config->stlb_code, config->folded,
					     pages);
		for (int side = 0; side < TLB_SIDES; side++)
			view->counts[side] = (struct tlb_counts){ 0 };
	}
}

/* Second level, else a walk; returns whether it walks. */
static inline bool look_up(struct tlb_view *view, uint64_t address,
			   enum tlb_side side)
{
	struct tlb_level *level = view->split && side == TLB_FETCH ?
					  &view->stlb_code :
					  &view->stlb;
	struct tlb_counts *counts = &view->counts[side];
	const uint64_t page = address >> view->page_shift;
	const uint64_t replaced = tlb_level_exchange(level, page);
	const bool hit = replaced == page;

	counts->unknown += replaced == TLB_NO_PAGE;
	counts->l1_misses++;
	counts->stlb_hits += hit;
	counts->stlb_misses += !hit;
	return !hit;
}

static void report(struct tlb_views *views, uint32_t view, uint64_t address,
		   enum tlb_side side, bool walk)
{
	for (uint32_t i = view; views->missed && i < views->count; i++)
		if (views->view[i].like == view)
			views->missed(i, address, side, walk);
}

/*
 * Misses of view `base` in memory that other views also have on its pages are misses of
 * theirs.
 */
static void rest_missed(struct tlb_views *views, uint32_t base,
			uint64_t address, enum tlb_side side, bool walk)
{
	for (uint32_t i = 0; i < views->count; i++) {
		struct tlb_view *view = &views->view[i];
		struct tlb_counts *counts = &view->counts[side];

		if (view->like != i || !view->mapped || view->rest != base ||
		    !views->data.backed ||
		    views->data.backed(address, view->page_shift))
			continue;
		counts->l1_misses++;
		counts->stlb_hits += !walk;
		counts->stlb_misses += walk;
		report(views, i, address, side, walk);
	}
}

void tlb_views_base_missed(struct tlb_views *views, uint64_t address,
			   enum tlb_side side, bool walk)
{
	if (views->base_followed)
		rest_missed(views, TLB_REST_BASE, address, side, walk);
}

/* The queued misses of this view's first levels. */
static void look_up_all(struct tlb_views *views, uint32_t number)
{
	struct tlb_view *view = &views->view[number];

	for (uint32_t i = 0; i < views->waiting_count; i++) {
		const struct tlb_waiting *waiting = &views->waiting[i];
		bool walk;

		if (!(waiting->missed & (waiting->side == TLB_FETCH ?
						 view->code_bit :
						 view->data_bit)))
			continue;
		walk = look_up(view, waiting->address, waiting->side);
		if (views->missed)
			report(views, number, waiting->address, waiting->side,
			     walk);
		if (view->followed)
			rest_missed(views, number, waiting->address,
				    waiting->side, walk);
	}
}

void tlb_views_flush(struct tlb_views *views)
{
	for (uint32_t i = 0; i < views->count; i++)
		if (views->view[i].like == i)
			look_up_all(views, i);
	views->waiting_count = 0;
}
