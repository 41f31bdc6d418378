/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "walk_ages.h"
#include "cores.h"
#include "current.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"

/* To base pages, and to huge pages: by walks of base pages, and by their own. */
enum { BASE_PAGES, HUGE_BY_BASE, HUGE_PAGES, RECENCIES };

static struct recency *recencies[RECENCIES];	/* NULL: not needed */

/*
 * Walks that are not noted yet.  The record of a walk is in no near cache; processing many
 * together overlaps these misses and keeps them off other work.
 */
#define MOST_WAITING 128u

static struct waiting {
	UInt count;
	struct { uint64_t address, when; } walks[MOST_WAITING];
} waiting[TLB_SIZES];

/* The last walk of a window, for each size. */
static struct {
	uint64_t page, when;
	struct walk_ages ages;
} last[TLB_SIZES];

static struct recency *make_recency(void)
{
	const Addr line = 1u << LINE_SHIFT;
	Addr start = (Addr)VG_(malloc)("tlbsim.ages",
				       sizeof(struct recency) + line - 1);

	return (struct recency *)((start + line - 1) & ~(line - 1));
}

void walk_ages_start(void)
{
	for (UInt i = 0; options.windows.period && i < RECENCIES; i++) {
		if (!recencies[i])
			recencies[i] = make_recency();
		VG_(memset)(recencies[i], 0, sizeof(struct recency));
	}
	VG_(memset)(last, 0, sizeof(last));
	waiting[TLB_BASE].count = waiting[TLB_HUGE].count = 0;
}

static uint64_t page_of(enum tlb_size size, uint64_t address)
{
	return address >> options.tlb.page_shift[size];
}

static void note(UInt which, enum tlb_size size, const struct waiting *noted)
{
	for (UInt i = 0; i < noted->count; i++)
		recency_walk(recencies[which],
			     page_of(size, noted->walks[i].address),
			     noted->walks[i].when);
}

static void note_waiting(enum tlb_size size)
{
	if (size == TLB_BASE) {
		note(BASE_PAGES, TLB_BASE, &waiting[TLB_BASE]);
		note(HUGE_BY_BASE, TLB_HUGE, &waiting[TLB_BASE]);
	} else {
		note(HUGE_PAGES, TLB_HUGE, &waiting[TLB_HUGE]);
	}
	waiting[size].count = 0;
}

void walk_ages_walked(enum tlb_size size, uint64_t address)
{
	struct waiting *walks = &waiting[size];

	if (!recencies[0])
		return;
	if (walks->count == MOST_WAITING)
		note_waiting(size);
	walks->walks[walks->count].address = address;
	walks->walks[walks->count++].when = current.model->when;
}

static struct recency_ages age_in(UInt which, uint64_t page)
{
	struct recency_ages ages = recency_look(recencies[which], page, current.model->when);

	if (recency_lost(recencies[which], page))
		return (struct recency_ages){ AGE_UNKNOWN, AGE_UNKNOWN };
	ages.page = ages.page ? ages.page : NEVER_ACCESSED;
	ages.line = ages.line ? ages.line : NEVER_ACCESSED;
	return ages;
}

/* The ages until now, from the walks noted. */
static struct walk_ages ages_at(enum tlb_size size, uint64_t address)
{
	const uint64_t huge = page_of(TLB_HUGE, address);
	struct recency_ages own;

	if (size == TLB_BASE)
		return (struct walk_ages){
			.base = age_in(BASE_PAGES, page_of(TLB_BASE, address)),
			.huge = age_in(HUGE_BY_BASE, huge),
		};
	own = age_in(HUGE_PAGES, huge);
	return (struct walk_ages){ .base = own, .huge = own };
}

void walk_ages_walked_now(enum tlb_size size, uint64_t address)
{
	if (!recencies[0])
		return;
	note_waiting(size);
	last[size].page = page_of(size, address);
	last[size].when = current.model->when;
	last[size].ages = ages_at(size, address);
	walk_ages_walked(size, address);
}

/* Treat ages of this kind as recent. */
static void forget(struct recency_ages *ages, uint64_t kind)
{
	ages->page = ages->page == kind ? 0 : ages->page;
	ages->line = ages->line == kind ? 0 : ages->line;
}

bool walk_ages_of(enum tlb_size size, uint64_t address, enum tlb_side side,
		  const struct timing_config *config, struct walk_ages *ages)
{
	const bool calibrated = config->l3_half_life_cycles[0] != 0;

	if (!recencies[0])
		return false;
	/* The machine at hand may have walked just before. */
	if (last[size].page == page_of(size, address) &&
	    last[size].when == current.model->when) {
		*ages = last[size].ages;
	} else {
		note_waiting(size);
		*ages = ages_at(size, address);
	}
	if (calibrated) {
		forget(&ages->base, AGE_UNKNOWN);
		forget(&ages->huge, AGE_UNKNOWN);
	}
	/* A store to a new page faults: the kernel has just written the entry. */
	if (calibrated || side == TLB_STORE) {
		forget(&ages->base, NEVER_ACCESSED);
		forget(&ages->huge, NEVER_ACCESSED);
	}
	return true;
}
