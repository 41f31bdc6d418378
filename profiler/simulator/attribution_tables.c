/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The tables of the memory that pays, and when: "mappings" and "phases" in
 * doc/format.md.
 */
#include "attribution.h"
#include "code.h"

#include "pub_tool_clientstate.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"

#include "config.h"

VgFile *table_open(const HChar *kind, const HChar *state)
{
	const HChar *counts = tlbsim_counts_path();
	const HChar *numbers;
	HChar *path;
	VgFile *file;
	SizeT bytes;

	if (!counts)
		return NULL;
	numbers = VG_(strrchr)(counts, '/') + VG_(strlen)("/counts");
	bytes = VG_(strlen)(tlbsim.counts_dir) + VG_(strlen)(kind) +
		VG_(strlen)(numbers) + 2;
	path = VG_(malloc)("tlbsim.path", bytes);
	VG_(snprintf)(path, (Int)bytes, "%s/%s%s", tlbsim.counts_dir, kind,
		      numbers);
	file = VG_(fopen)(path, VKI_O_CREAT | VKI_O_WRONLY | VKI_O_TRUNC, 0644);
	if (!file) {
		VG_(umsg)("tlbsim: cannot write %s\n", path);
	} else {
		VG_(fprintf)(file, "# tlbcost %s 1\n", kind);
		VG_(fprintf)(file, "# pid: %d\n", VG_(getpid)());
		VG_(fprintf)(file, "# program: %s\n", VG_(args_the_exename));
		VG_(fprintf)(file, "# executable: %s\n",
			     place_executable ? place_executable : "NA");
		VG_(fprintf)(file, "# state: %s\n", state);
	}
	VG_(free)(path);
	return file;
}

void table_close(VgFile *file, UInt rows)
{
	VG_(fprintf)(file, "# end: %u\n", rows);
	VG_(fclose)(file);
}

void table_misses(VgFile *file, const struct misses *misses)
{
	VG_(fprintf)(file, "\t%llu\t%llu", misses->hits, misses->walks);
}

static void write_device(VgFile *file, ULong device)
{
	/* As the C library takes dev_t apart. */
	ULong major = (device >> 8 & 0xfff) | (device >> 32 & ~0xfffULL);
	ULong minor = (device & 0xff) | (device >> 12 & ~0xffULL);

	if (device)
		VG_(fprintf)(file, "\t%llu:%llu", major, minor);
	else
		VG_(fprintf)(file, "\tNA");
}

static void write_place(VgFile *file, const struct place *place)
{
	static const HChar *const kinds[] = {
		"unknown", "heap", "stack", "anonymous", "segment", "file",
		"memfd", "shared", "sysv", "hugetlbfs", "jit",
	};

	VG_(fprintf)(file, "%s\t%s", kinds[place->kind],
		     place->code ? "yes" : "no");
	names_cell(file, place->name);
	names_cell(file, place->variable);
	names_cell(file, stack_number(place->site));
	write_device(file, place->device);
	VG_(fprintf)(file, "\t%llu\t%llu\t%llu", place->most_bytes,
		     place->most_pages, place->most_regions);
	for (Int side = 0; side < MISSES_SIDES; side++)
		for (Int size = 0; size < TLB_SIZES; size++)
			table_misses(file, &place->counted[size][side]);
	for (Int size = 0; size < TLB_SIZES; size++) {
		table_misses(file, &place->modelled[size]);
		VG_(fprintf)(file, "\t%llu", place->paid[size] / TICKS_PER_CYCLE);
	}
	VG_(fprintf)(file, "\n");
}

static Bool has_missed(const struct place *place)
{
	for (Int size = 0; size < TLB_SIZES; size++)
		for (Int side = 0; side < MISSES_SIDES; side++)
			if (place->counted[size][side].hits ||
			    place->counted[size][side].walks)
				return True;
	return False;
}

static void write_mappings(const HChar *state)
{
	VgFile *file = table_open("mappings", state);
	UInt rows = 0;

	if (!file)
		return;
	names_write(&place_names, file);
	VG_(fprintf)(file, "kind\tcode\tname\tvariable\tstack\tdevice\t"
		     "most_bytes\ttouched_pages\ttouched_huge_pages\t"
		     "base_stlb_hits\tbase_stlb_misses\t"
		     "huge_stlb_hits\thuge_stlb_misses\t"
		     "base_fetch_stlb_hits\tbase_fetch_stlb_misses\t"
		     "huge_fetch_stlb_hits\thuge_fetch_stlb_misses\t"
		     "modelled_base_stlb_hits\tmodelled_base_stlb_misses\t"
		     "waited_base_cycles\t"
		     "modelled_huge_stlb_hits\tmodelled_huge_stlb_misses\t"
		     "waited_huge_cycles\n");
	for (UInt i = 0; i < place_count; i++)
		if (has_missed(&places[i])) {
			write_place(file, &places[i]);
			rows++;
		}
	table_close(file, rows);
}

static void write_phases(const HChar *state)
{
	const struct phases *phases = &attribution_phases;
	VgFile *file = table_open("phases", state);

	if (!file)
		return;
	VG_(fprintf)(file, "# references: %llu\n",
		     tlbsim_clock - phases->origin);
	VG_(fprintf)(file, "# phase: %llu\n", (ULong)phases->references);
	VG_(fprintf)(file, "start\tbase_stlb_hits\tbase_stlb_misses\t"
		     "huge_stlb_hits\thuge_stlb_misses\n");
	for (UInt i = 0; i <= phases->last; i++) {
		const struct phase *phase = &phases->phase[i];

		VG_(fprintf)(file, "%llu\t%llu\t%llu\t%llu\t%llu\n",
			     i * (ULong)phases->references,
			     (ULong)phase->hits[TLB_BASE],
			     (ULong)phase->walks[TLB_BASE],
			     (ULong)phase->hits[TLB_HUGE],
			     (ULong)phase->walks[TLB_HUGE]);
	}
	table_close(file, phases->last + 1);
}

void attribution_write(const HChar *state)
{
	code_tables_start();
	write_mappings(state);
	write_phases(state);
	code_tables_write(state);
}
