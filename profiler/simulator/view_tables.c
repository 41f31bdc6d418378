/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The tables of further machines: "views" and "timings" in doc/format.md. */
#include "windows.h"

#include "pub_tool_clientstate.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_vki.h"

/* Longer paths cannot be opened. */
#define MOST_PATH 4096

/* The file, with the header that both tables have; NULL: complained about. */
static VgFile *open_table(const HChar *kind, Int image, const HChar *state)
{
	static HChar path[MOST_PATH];
	VgFile *file;

	VG_(snprintf)(path, sizeof(path), "%s/%s.%d.%d.tsv", tlbsim.counts_dir,
		      kind, VG_(getpid)(), image);
	file = VG_(fopen)(path, VKI_O_CREAT | VKI_O_WRONLY | VKI_O_TRUNC, 0644);
	if (!file) {
		VG_(umsg)("tlbsim: cannot write %s\n", path);
		return NULL;
	}
	VG_(fprintf)(file, "# tlbcost %s 1\n", kind);
	VG_(fprintf)(file, "# pid: %d\n", VG_(getpid)());
	VG_(fprintf)(file, "# program: %s\n", VG_(args_the_exename));
	VG_(fprintf)(file, "# state: %s\n", state);
	return file;
}

static void write_counts(Int image, const HChar *state,
			 const struct tlb_counts counts[TLB_MOST_VIEWS][TLB_SIDES])
{
	static const HChar *const sides[TLB_SIDES] = { "load", "store", "fetch" };
	VgFile *file = open_table("views", image, state);

	if (!file)
		return;
	for (UInt view = 0; view < tlbsim.view_count; view++)
		VG_(fprintf)(file, "# view_%u: %s\n", view,
			     tlbsim.views[view].text);
	VG_(fprintf)(file, "view\taccess\tl1_tlb_misses\tstlb_hits\tstlb_misses\n");
	for (UInt view = 0; view < tlbsim.view_count; view++)
		for (Int side = 0; side < TLB_SIDES; side++) {
			const struct tlb_counts *c = &counts[view][side];

			VG_(fprintf)(file, "%u\t%s\t%llu\t%llu\t%llu\n", view,
				     sides[side], (ULong)c->l1_misses,
				     (ULong)c->stlb_hits, (ULong)c->stlb_misses);
		}
	VG_(fprintf)(file, "# end: %u\n", tlbsim.view_count * TLB_SIDES);
	VG_(fclose)(file);
}

static void write_timings(Int image, const HChar *state)
{
	VgFile *file = open_table("timings", image, state);

	if (!file)
		return;
	VG_(fprintf)(file, "# references: %llu\n", tlbsim_clock - windows.origin);
	VG_(fprintf)(file, "# window: %llu\n", tlbsim.windows.measured);
	for (UInt view = 0; view < tlbsim.view_count; view++)
		VG_(fprintf)(file, "# core_%u: %s\n", view,
			     tlbsim.views[view].core_text);
	VG_(fprintf)(file, "window\tview\treferences\tcycles\n");
	for (UInt i = 0; i < windows.count; i++)
		for (UInt view = 0; view < tlbsim.view_count; view++)
			VG_(fprintf)(file, "%u\t%u\t%llu\t%llu\n", i, view,
				     windows.rows[i].references,
				     (ULong)windows.rows[i].time[TLB_SIZES + view] /
					     TICKS_PER_CYCLE);
	VG_(fprintf)(file, "# end: %u\n", windows.count * tlbsim.view_count);
	VG_(fclose)(file);
}

void tlbsim_views_write(Int image, const HChar *state,
			const struct tlb_counts counts[TLB_MOST_VIEWS][TLB_SIDES])
{
	if (image < 0 || !tlbsim.view_count)
		return;
	write_counts(image, state, counts);
	if (tlbsim.windows.period)
		write_timings(image, state);
}
