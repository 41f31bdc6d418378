/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of counts that a process leaves behind: "counts" in doc/format.md. */
#include "placing.h"

#include "pub_tool_clientstate.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"

/* A process ID may come back in a long run, and exec keeps it. */
#define IMAGES_OF_A_PID 100000

static HChar *path;	/* NULL if no file could be made */
static HChar *windows_path;
static Int image_number = -1;

static void write_geometry(VgFile *file, const HChar *name,
			   const struct tlb_geometry geometry[TLB_SIZES])
{
	VG_(fprintf)(file, "# %s: %u:%u,%u:%u\n", name,
		     geometry[TLB_BASE].entries, geometry[TLB_BASE].ways,
		     geometry[TLB_HUGE].entries, geometry[TLB_HUGE].ways);
}

static void write_header(VgFile *file, const HChar *state, UInt threads)
{
	const struct tlb_config *config = &tlbsim.config;
	const struct touched *touched = &tlbsim.touched;

	VG_(fprintf)(file, "# tlbcost counts 1\n");
	VG_(fprintf)(file, "# pid: %d\n", VG_(getpid)());
	VG_(fprintf)(file, "# parent_pid: %d\n", VG_(getppid)());
	VG_(fprintf)(file, "# program: %s\n", VG_(args_the_exename));
	VG_(fprintf)(file, "# state: %s\n", state);
	VG_(fprintf)(file, "# threads: %u\n", threads);
	VG_(fprintf)(file, "# base_page_bytes: %llu\n",
		     1ULL << config->page_shift[TLB_BASE]);
	VG_(fprintf)(file, "# huge_page_bytes: %llu\n",
		     1ULL << config->page_shift[TLB_HUGE]);
	write_geometry(file, "l1d", config->l1d);
	write_geometry(file, "l1i", config->l1i);
	write_geometry(file, "stlb", config->stlb);
	if (touched->failed) {
		/* Counts that fell short are no counts. */
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

void tlbsim_counts_start(void)
{
	SizeT bytes = VG_(strlen)(tlbsim.counts_dir) + 48;
	SysRes opened;
	UInt image = 0;

	if (path) {
		VG_(free)(path);
		VG_(free)(windows_path);
	}
	path = VG_(malloc)("tlbsim.path", bytes);
	windows_path = VG_(malloc)("tlbsim.path", bytes);
	do {
		VG_(snprintf)(path, (Int)bytes, "%s/counts.%d.%u.tsv",
			      tlbsim.counts_dir, VG_(getpid)(), image);
		opened = VG_(open)(path, VKI_O_CREAT | VKI_O_EXCL | VKI_O_WRONLY,
				   0644);
	} while (sr_isError(opened) && sr_Err(opened) == VKI_EEXIST &&
		 ++image < IMAGES_OF_A_PID);
	if (sr_isError(opened)) {
		VG_(umsg)("tlbsim: cannot make %s: error %lu\n", path,
			  sr_Err(opened));
		VG_(free)(path);
		VG_(free)(windows_path);
		path = NULL;
		image_number = -1;
		return;
	}
	image_number = (Int)image;
	VG_(close)((Int)sr_Res(opened));
	VG_(snprintf)(windows_path, (Int)bytes, "%s/windows.%d.%u.tsv",
		      tlbsim.counts_dir, VG_(getpid)(), image);
	placing_name(tlbsim.counts_dir, image);
	tlbsim_counts_write("running", NULL, 0);
}

Int tlbsim_image(void)
{
	return image_number;
}

const HChar *tlbsim_counts_path(void)
{
	return path;
}

void tlbsim_counts_write(const HChar *state,
			 const struct tlb_counts counts[TLB_SIZES][TLB_SIDES],
			 UInt threads)
{
	static const HChar *const sides[TLB_SIDES] = { "load", "store", "fetch" };
	VgFile *file;

	if (!path)
		return;
	file = VG_(fopen)(path, VKI_O_WRONLY | VKI_O_TRUNC, 0644);
	if (!file) {
		VG_(umsg)("tlbsim: cannot write %s\n", path);
		return;
	}
	write_header(file, state, threads);
	if (counts) {
		VG_(fprintf)(file, "page_size_bytes\taccess\tl1_tlb_misses\t"
			     "stlb_hits\tstlb_misses\n");
		for (Int size = 0; size < TLB_SIZES; size++)
			for (Int side = 0; side < TLB_SIDES; side++) {
				const struct tlb_counts *c = &counts[size][side];

				VG_(fprintf)(file, "%llu\t%s\t%llu\t%llu\t%llu\n",
					     1ULL << tlbsim.config.page_shift[size],
					     sides[side], (ULong)c->l1_misses,
					     (ULong)c->stlb_hits,
					     (ULong)c->stlb_misses);
			}
		VG_(fprintf)(file, "# end: %d\n", TLB_SIZES * TLB_SIDES);
	}
	VG_(fclose)(file);
	if (tlbsim.windows.period)
		tlbsim_windows_write(windows_path, state);
	placing_write(state);
}
