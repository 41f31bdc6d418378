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

static struct recency_ages age_in(UInt which, uint64_t page, Bool walked)
{
	const uint64_t now = tlbsim.model->when;

	return walked ? recency_walk(recencies[which], page, now) :
			recency_look(recencies[which], page, now);
}

/* Until now; it is walked to, or only looked at. */
static struct walk_ages ages_at(enum tlb_size size, uint64_t address, Bool walked)
{
	const uint64_t huge = page_of(TLB_HUGE, address);
	struct recency_ages own;

	if (size == TLB_BASE)
		return (struct walk_ages){
			.base = age_in(BASE_PAGES, page_of(TLB_BASE, address),
				       walked),
			.huge = age_in(HUGE_BY_BASE, huge, walked),
		};
	own = age_in(HUGE_PAGES, huge, walked);
	return (struct walk_ages){ .base = own, .huge = own };
}

void ages_walked(enum tlb_size size, uint64_t address)
{
	if (!recencies[0])
		return;
	last[size].page = page_of(size, address);
	last[size].when = tlbsim.model->when;
	last[size].ages = ages_at(size, address, True);
}

const struct walk_ages *ages_of(enum tlb_size size, uint64_t address)
{
	static struct walk_ages ages;

	if (!recencies[0])
		return NULL;
	/* The machine at hand may have walked just now. */
	if (last[size].page == page_of(size, address) &&
	    last[size].when == tlbsim.model->when)
		return &last[size].ages;
	ages = ages_at(size, address, False);
	return &ages;
}
