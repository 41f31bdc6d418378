/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "table.h"
#include "options.h"

#include "pub_tool_clientstate.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"

/* A process ID may be reused in a long run, and exec keeps it. */
#define IMAGES_OF_A_PID 100000

static Int image = -1;		/* -1: none was taken */

/* The file's path; the caller frees it. */
static HChar *path_of(const HChar *kind, Int number)
{
	SizeT bytes = VG_(strlen)(options.counts_dir) + VG_(strlen)(kind) + 48;
	HChar *path = VG_(malloc)("tlbsim.path", bytes);

	VG_(snprintf)(path, (Int)bytes, "%s/%s.%d.%d.tsv", options.counts_dir,
		      kind, VG_(getpid)(), number);
	return path;
}

void table_claim(const HChar *kind)
{
	for (image = 0;; image++) {
		HChar *path = path_of(kind, image);
		SysRes opened = VG_(open)(
			path, VKI_O_CREAT | VKI_O_EXCL | VKI_O_WRONLY, 0644);
		Bool taken = sr_isError(opened) && sr_Err(opened) == VKI_EEXIST;

		if (taken && image + 1 < IMAGES_OF_A_PID) {
			VG_(free)(path);
			continue;
		}
		if (sr_isError(opened)) {
			VG_(umsg)("tlbsim: cannot make %s: error %lu\n", path,
				  sr_Err(opened));
			image = -1;
		} else {
			VG_(close)((Int)sr_Res(opened));
		}
		VG_(free)(path);
		return;
	}
}

void table_text(VgFile *file, const HChar *text)
{
	for (const UChar *c = (const UChar *)text; *c; c++)
		if (*c < ' ' || *c == 0x7f || *c == '\\')
			VG_(fprintf)(file, "\\x%02x", (UInt)*c);
		else
			VG_(fprintf)(file, "%c", *c);
	VG_(fprintf)(file, "\n");
}

VgFile *table_open(struct table_header header)
{
	HChar *path;
	VgFile *file;

	if (image < 0)
		return NULL;
	path = path_of(header.kind, image);
	file = VG_(fopen)(path, VKI_O_CREAT | VKI_O_WRONLY | VKI_O_TRUNC, 0644);
	if (!file)
		VG_(umsg)("tlbsim: cannot write %s\n", path);
	VG_(free)(path);
	if (!file)
		return NULL;
	VG_(fprintf)(file, "# tlbcost %s 1\n", header.kind);
	VG_(fprintf)(file, "# pid: %d\n", VG_(getpid)());
	if (header.parent)
		VG_(fprintf)(file, "# parent_pid: %d\n", VG_(getppid)());
	VG_(fprintf)(file, "# program: ");
	table_text(file, VG_(args_the_exename));
	if (header.executable) {
		VG_(fprintf)(file, "# executable: ");
		table_text(file, header.executable);
	}
	VG_(fprintf)(file, "# state: %s\n", header.state);
	return file;
}

void table_page_sizes(VgFile *file)
{
	VG_(fprintf)(file, "# base_page_bytes: %llu\n",
		     1ULL << options.tlb.page_shift[TLB_BASE]);
	VG_(fprintf)(file, "# huge_page_bytes: %llu\n",
		     1ULL << options.tlb.page_shift[TLB_HUGE]);
}

void table_counts(VgFile *file, ULong number,
		  const struct tlb_counts counts[TLB_SIDES])
{
	static const HChar *const sides[TLB_SIDES] = { "load", "store", "fetch" };

	for (Int side = 0; side < TLB_SIDES; side++)
		VG_(fprintf)(file, "%llu\t%s\t%llu\t%llu\t%llu\n", number,
			     sides[side], (ULong)counts[side].l1_misses,
			     (ULong)counts[side].stlb_hits,
			     (ULong)counts[side].stlb_misses);
}

void table_misses(VgFile *file, const struct misses *misses)
{
	VG_(fprintf)(file, "\t%llu\t%llu", misses->hits, misses->walks);
}

void table_close(VgFile *file, ULong rows)
{
	VG_(fprintf)(file, "# end: %llu\n", rows);
	VG_(fclose)(file);
}

void table_close_empty(VgFile *file)
{
	VG_(fclose)(file);
}
