/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "memory_tables.h"
#include "attribution.h"
#include "code_tables.h"
#include "current.h"
#include "mappings.h"
#include "table.h"

#include "timing/config.h"

static VgFile *open_table(const HChar *kind, const HChar *state)
{
	return table_open((struct table_header){
		.kind = kind, .state = state,
		.executable = mapping_executable ? mapping_executable : "NA",
	});
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

static void write_mapping(VgFile *file, const struct mapping *mapping)
{
	static const HChar *const kinds[] = {
		"unknown", "heap", "stack", "anonymous", "segment", "file",
		"memfd", "shared", "sysv", "hugetlbfs", "jit",
	};

	VG_(fprintf)(file, "%s\t%s", kinds[mapping->kind],
		     mapping->code ? "yes" : "no");
	names_cell(file, mapping->name);
	names_cell(file, mapping->variable);
	names_cell(file, stack_number(mapping->site));
	write_device(file, mapping->device);
	VG_(fprintf)(file, "\t%llu\t%llu\t%llu", mapping->most_bytes,
		     mapping->most_pages, mapping->most_regions);
	for (Int side = 0; side < MISSES_SIDES; side++)
		for (Int size = 0; size < TLB_SIZES; size++)
			table_misses(file, &mapping->counted[size][side]);
	for (Int size = 0; size < TLB_SIZES; size++) {
		table_misses(file, &mapping->modelled[size]);
		VG_(fprintf)(file, "\t%llu", mapping->waited[size] / TICKS_PER_CYCLE);
	}
	VG_(fprintf)(file, "\n");
}

static Bool has_missed(const struct mapping *mapping)
{
	for (Int size = 0; size < TLB_SIZES; size++)
		for (Int side = 0; side < MISSES_SIDES; side++)
			if (mapping->counted[size][side].hits ||
			    mapping->counted[size][side].walks)
				return True;
	return False;
}

static void write_mappings(const HChar *state)
{
	VgFile *file = open_table("mappings", state);
	UInt rows = 0;

	if (!file)
		return;
	names_write(&mapping_names, file);
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
	for (UInt i = 0; i < mapping_count; i++)
		if (has_missed(&mappings[i])) {
			write_mapping(file, &mappings[i]);
			rows++;
		}
	table_close(file, rows);
}

static void write_phases(const HChar *state)
{
	const struct phases *phases = &attribution_phases;
	VgFile *file = open_table("phases", state);

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

void memory_tables_write(const HChar *state)
{
	write_mappings(state);
	write_phases(state);
}
