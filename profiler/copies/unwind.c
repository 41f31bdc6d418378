/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "unwind.h"

#include <elfutils/libdwfl.h>
#include <stdlib.h>

struct found {
	uint64_t *addresses;
	unsigned count, room, frames;
};

static int each_frame(Dwfl_Frame *frame, void *argument)
{
	struct found *found = argument;
	Dwarf_Addr pc;

	if (!dwfl_frame_pc(frame, &pc, NULL) || !pc)
		return DWARF_CB_ABORT;
	/* The first one is where it is, not where it returns to. */
	if (found->frames++ && found->count < found->room)
		found->addresses[found->count++] = pc;
	return found->count < found->room ? DWARF_CB_OK : DWARF_CB_ABORT;
}

/* Debug information may be far away, on a server even: code has its own unwind tables. */
static int no_debug_information(Dwfl_Module *module, void **data, const char *name,
				Dwarf_Addr base, const char *file, const char *link,
				GElf_Word crc, char **path)
{
	(void)module, (void)data, (void)name, (void)base, (void)file, (void)link, (void)crc;
	*path = NULL;
	return -1;
}

unsigned unwind(const struct copy *copy, uint64_t *addresses, unsigned room)
{
	static const Dwfl_Callbacks callbacks = {
		.find_elf = dwfl_linux_proc_find_elf,
		.find_debuginfo = no_debug_information,
	};
	struct found found = { .addresses = addresses, .room = room };
	Dwfl *dwfl = dwfl_begin(&callbacks);

	if (!dwfl)
		return 0;
	if (dwfl_linux_proc_report(dwfl, copy->pid) == 0 &&
	    dwfl_report_end(dwfl, NULL, NULL) == 0 &&
	    dwfl_linux_proc_attach(dwfl, copy->pid, true) == 0)
		/* It fails at the outermost frame, too: what was found is valid. */
		dwfl_getthread_frames(dwfl, copy->pid, each_frame, &found);
	dwfl_end(dwfl);
	return found.count;
}
