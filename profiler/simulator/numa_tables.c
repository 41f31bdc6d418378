/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "numa_tables.h"
#include "current.h"
#include "numa.h"
#include "options.h"
#include "table.h"

#include "pub_tool_libcbase.h"

/* A table with the header that both have; NULL: it cannot be written. */
static VgFile *open_table(const HChar *kind, const HChar *state)
{
	VgFile *file = table_open((struct table_header){
		.kind = kind, .state = state,
	});

	if (file)
		table_page_sizes(file);
	return file;
}

static void write_model(VgFile *file)
{
	const struct numa_config *numa = &options.numa;
	const struct placement *placement = &numa_placement;

	VG_(fprintf)(file, "# l2: %u:%u\n", numa->caches.l2_bytes,
		     numa->caches.l2_ways);
	VG_(fprintf)(file, "# l3: %u:%u\n", numa->caches.l3_bytes,
		     numa->caches.l3_ways);
	VG_(fprintf)(file, "# period: %llu\n", numa->period);
	VG_(fprintf)(file, "# warm: %llu\n", numa->warm);
	VG_(fprintf)(file, "# measured: %llu\n", numa->measured);
	VG_(fprintf)(file, "# references: %llu\n",
		     tlbsim_clock - numa_times.origin);
	VG_(fprintf)(file, "# interval: %llu\n", numa_times.interval);
	VG_(fprintf)(file, "# intervals: %u\n", placement->interval + 1);
	VG_(fprintf)(file, "# l2_misses: %llu\n", (ULong)placement->l2_misses);
	VG_(fprintf)(file, "# walk_l2_misses: %llu\n",
		     (ULong)placement->walk_l2_misses);
}

static void write_placement(VgFile *file)
{
	const struct placement *placement = &numa_placement;
	SizeT rows = 0;

	VG_(fprintf)(file, "page\tthread\twritten");
	for (UInt i = 0; i < PLACEMENT_INTERVALS; i++)
		VG_(fprintf)(file, "\taccesses_%u", i);
	VG_(fprintf)(file, "\n");
	for (SizeT i = 0; i < placement->capacity; i++) {
		const struct placement_count *count = &placement->counts[i];

		if (!count->key)
			continue;
		VG_(fprintf)(file, "%llu\t%u\t%u", (ULong)count->key >> 16,
			     (UInt)(count->key & 0xffff), count->written);
		for (UInt j = 0; j < PLACEMENT_INTERVALS; j++)
			VG_(fprintf)(file, "\t%u", count->accesses[j]);
		VG_(fprintf)(file, "\n");
		rows++;
	}
	table_close(file, rows);
}

static void write_touches(VgFile *file)
{
	static const HChar *const kinds[PLACEMENT_KINDS] = {
		[PLACEMENT_HUGE] = "huge",
		[PLACEMENT_ANONYMOUS] = "anonymous",
		[PLACEMENT_OTHER] = "other",
	};
	const struct placement *placement = &numa_placement;

	VG_(fprintf)(file, "page\tthread\tkind\n");
	for (SizeT i = 0; i < placement->touch_count; i++) {
		const struct placement_touch *touch = &placement->touches[i];

		VG_(fprintf)(file, "%llu\t%u\t%s\n", (ULong)touch->page,
			     (UInt)touch->thread, kinds[touch->kind]);
	}
	table_close(file, placement->touch_count);
}

void numa_tables_write(const HChar *state)
{
	const Bool rows = VG_(strcmp)(state, "running") != 0;
	VgFile *file;

	if (!options.numa.period)
		return;
	/* Incomplete counts are not written. */
	if (rows && (numa_placement.failed || tlbsim_touched.failed))
		state = "failed";
	file = open_table("placement", state);
	if (file && rows) {
		write_model(file);
		write_placement(file);
	} else if (file) {
		table_close_empty(file);
	}
	file = open_table("touches", state);
	if (file && rows)
		write_touches(file);
	else if (file)
		table_close_empty(file);
}
