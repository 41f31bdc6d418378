/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ages.h"
#include "cores.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"

/* To base pages, and to huge pages: by walks of base pages, and by their own. */
enum { BASE_PAGES, HUGE_BY_BASE, HUGE_PAGES, RECENCIES };

static struct recency *recencies[RECENCIES];	/* NULL: nobody asks */

/* The last walk that was noted, of each size. */
static struct {
	uint64_t page, when;
	struct walk_ages ages;
} last[TLB_SIZES];

void ages_start(void)
{
	Bool asked = False;
	UInt shift;

	for (UInt core = 0; tlbsim.windows.period && core < core_count(); core++)
		asked |= config_of(core, &shift)->l3_kept != 0;
	for (UInt i = 0; asked && i < RECENCIES; i++) {
		if (!recencies[i])
			recencies[i] = VG_(malloc)("tlbsim.ages",
						   sizeof(struct recency));
		VG_(memset)(recencies[i], 0, sizeof(struct recency));
	}
	VG_(memset)(last, 0, sizeof(last));
}

static uint64_t page_of(enum tlb_size size, uint64_t address)
{
	return address >> tlbsim.config.page_shift[size];
}

void ages_walked(enum tlb_size size, uint64_t address)
{
	const uint64_t now = tlbsim.model->when;
	const uint64_t huge = page_of(TLB_HUGE, address);
	struct walk_ages ages;

	if (!recencies[0])
		return;
	if (size == TLB_HUGE) {
		ages.huge = recency_walk(recencies[HUGE_PAGES], huge, now);
		ages.base = ages.huge;
	} else {
		ages.huge = recency_walk(recencies[HUGE_BY_BASE], huge, now);
		ages.base = recency_walk(recencies[BASE_PAGES],
					 page_of(TLB_BASE, address), now);
	}
	last[size].page = page_of(size, address);
	last[size].when = now;
	last[size].ages = ages;
}

const struct walk_ages *ages_of(enum tlb_size size, uint64_t address)
{
	static struct walk_ages ages;
	const uint64_t now = tlbsim.model->when;
	const uint64_t huge = page_of(TLB_HUGE, address);

	if (!recencies[0])
		return NULL;
	/* The machine at hand may have walked just now. */
	if (last[size].page == page_of(size, address) && last[size].when == now)
		return &last[size].ages;
	if (size == TLB_HUGE) {
		ages.huge = recency_look(recencies[HUGE_PAGES], huge, now);
		ages.base = ages.huge;
	} else {
		ages.huge = recency_look(recencies[HUGE_BY_BASE], huge, now);
		ages.base = recency_look(recencies[BASE_PAGES],
					 page_of(TLB_BASE, address), now);
	}
	return &ages;
}
