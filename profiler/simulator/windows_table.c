/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "windows_table.h"
#include "current.h"
#include "table.h"
#include "windows.h"

void windows_table_write(const HChar *state)
{
	VgFile *file;

	if (!options.windows.period)
		return;
	file = table_open((struct table_header){ .kind = "windows", .state = state });
	if (!file)
		return;
	VG_(fprintf)(file, "# references: %llu\n",
		     tlbsim_clock - windows.schedule.origin);
	VG_(fprintf)(file, "# period: %llu\n", (ULong)windows.schedule.period);
	VG_(fprintf)(file, "# window: %llu\n", options.windows.measured);
	VG_(fprintf)(file, "# core: %s\n", options.windows.core_text);
	VG_(fprintf)(file, "thread\tstart\treferences\tbase_cycles\thuge_cycles\n");
	for (UInt i = 0; i < windows.count; i++) {
		const struct window *row = &windows.rows[i];

		VG_(fprintf)(file, "%u\t%llu\t%llu\t%llu\t%llu\n", row->thread,
			     row->start - windows.schedule.origin,
			     row->references,
			     (ULong)row->time[TLB_BASE] / TICKS_PER_CYCLE,
			     (ULong)row->time[TLB_HUGE] / TICKS_PER_CYCLE);
	}
	table_close(file, windows.count);
}
