/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "views_tables.h"
#include "current.h"
#include "table.h"
#include "windows.h"

static void write_counts(const HChar *state,
			 const struct tlb_counts counts[TLB_MOST_VIEWS][TLB_SIDES])
{
	VgFile *file = table_open((struct table_header){
		.kind = "views", .state = state,
	});

	if (!file)
		return;
	for (UInt view = 0; view < options.view_count; view++)
		VG_(fprintf)(file, "# view_%u: %s\n", view,
			     options.views[view].text);
	VG_(fprintf)(file, "view\taccess\tl1_tlb_misses\tstlb_hits\tstlb_misses\n");
	for (UInt view = 0; view < options.view_count; view++)
		table_counts(file, view, counts[view]);
	table_close(file, options.view_count * TLB_SIDES);
}

static void write_timings(const HChar *state)
{
	VgFile *file = table_open((struct table_header){
		.kind = "timings", .state = state,
	});

	if (!file)
		return;
	VG_(fprintf)(file, "# references: %llu\n",
		     tlbsim_clock - windows.schedule.origin);
	VG_(fprintf)(file, "# window: %llu\n", options.windows.measured);
	for (UInt view = 0; view < options.view_count; view++)
		VG_(fprintf)(file, "# core_%u: %s\n", view,
			     options.views[view].core_text);
	VG_(fprintf)(file, "window\tview\treferences\tcycles\n");
	for (UInt i = 0; i < windows.count; i++)
		for (UInt view = 0; view < options.view_count; view++)
			VG_(fprintf)(file, "%u\t%u\t%llu\t%llu\n", i, view,
				     windows.rows[i].references,
				     (ULong)windows.rows[i].time[TLB_SIZES + view] /
					     TICKS_PER_CYCLE);
	table_close(file, windows.count * options.view_count);
}

void views_tables_write(const HChar *state,
			const struct tlb_counts counts[TLB_MOST_VIEWS][TLB_SIDES])
{
	if (!options.view_count)
		return;
	write_counts(state, counts);
	if (options.windows.period)
		write_timings(state);
}
