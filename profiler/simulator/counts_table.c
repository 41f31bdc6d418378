/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "counts_table.h"
#include "current.h"
#include "options.h"
#include "table.h"

static void write_geometry(VgFile *file, const HChar *name,
			   const struct tlb_geometry geometry[TLB_SIZES])
{
	VG_(fprintf)(file, "# %s: %u:%u,%u:%u\n", name,
		     geometry[TLB_BASE].entries, geometry[TLB_BASE].ways,
		     geometry[TLB_HUGE].entries, geometry[TLB_HUGE].ways);
}

static void write_touched(VgFile *file)
{
	const struct touched *touched = &tlbsim_touched;

	if (touched->failed) {
		/* Incomplete counts are not written. */
		VG_(fprintf)(file, "# touched_anonymous_pages: NA\n"
			     "# touched_anonymous_huge_pages: NA\n"
			     "# touched_other_pages: NA\n");
		return;
	}
	VG_(fprintf)(file, "# touched_anonymous_pages: %llu\n",
		     (ULong)touched->anonymous_pages);
	VG_(fprintf)(file, "# touched_anonymous_huge_pages: %llu\n",
		     (ULong)touched->anonymous_regions);
	VG_(fprintf)(file, "# touched_other_pages: %llu\n",
		     (ULong)touched->other_pages);
}

void counts_table_write(const HChar *state,
			const struct tlb_counts counts[TLB_SIZES][TLB_SIDES],
			UInt threads)
{
	const struct tlb_config *tlb = &options.tlb;
	VgFile *file = table_open((struct table_header){
		.kind = "counts", .state = state, .parent = True,
	});

	if (!file)
		return;
	VG_(fprintf)(file, "# threads: %u\n", threads);
	table_page_sizes(file);
	write_geometry(file, "l1d", tlb->l1d);
	write_geometry(file, "l1i", tlb->l1i);
	write_geometry(file, "stlb", tlb->stlb);
	write_touched(file);
	if (!counts) {
		table_close_empty(file);
		return;
	}
	VG_(fprintf)(file, "page_size_bytes\taccess\tl1_tlb_misses\t"
		     "stlb_hits\tstlb_misses\n");
	for (Int size = 0; size < TLB_SIZES; size++)
		table_counts(file, 1ULL << tlb->page_shift[size], counts[size]);
	table_close(file, TLB_SIZES * TLB_SIDES);
}
