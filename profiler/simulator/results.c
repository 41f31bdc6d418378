/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The table of windows that a process leaves behind: "windows" in doc/format.md. */
#include "windows.h"

#include "pub_tool_clientstate.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_vki.h"

void tlbsim_windows_write(const HChar *path, const HChar *state)
{
	VgFile *file = VG_(fopen)(path, VKI_O_CREAT | VKI_O_WRONLY | VKI_O_TRUNC,
				  0644);

	if (!file) {
		VG_(umsg)("tlbsim: cannot write %s\n", path);
		return;
	}
	VG_(fprintf)(file, "# tlbcost windows 1\n");
	VG_(fprintf)(file, "# pid: %d\n", VG_(getpid)());
	VG_(fprintf)(file, "# program: %s\n", VG_(args_the_exename));
	VG_(fprintf)(file, "# state: %s\n", state);
	VG_(fprintf)(file, "# references: %llu\n", tlbsim_clock - windows.origin);
	VG_(fprintf)(file, "# period: %llu\n", windows.period);
	VG_(fprintf)(file, "# window: %llu\n", tlbsim.windows.measured);
	VG_(fprintf)(file, "# core: %s\n", tlbsim.windows.core_text);
	VG_(fprintf)(file, "thread\tstart\treferences\tbase_cycles\thuge_cycles\n");
	for (UInt i = 0; i < windows.count; i++) {
		const struct window *row = &windows.rows[i];

		VG_(fprintf)(file, "%u\t%llu\t%llu\t%llu\t%llu\n", row->thread,
			     row->start - windows.origin, row->references,
			     (ULong)row->time[TLB_BASE] / TICKS_PER_CYCLE,
			     (ULong)row->time[TLB_HUGE] / TICKS_PER_CYCLE);
	}
	VG_(fprintf)(file, "# end: %u\n", windows.count);
	VG_(fclose)(file);
}
