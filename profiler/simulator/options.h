/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What does the command line ask of the tool?  It never changes later. */
#ifndef TLBSIM_OPTIONS_H
#define TLBSIM_OPTIONS_H

#include "numa/placement.h"
#include "timing/config.h"
#include "tlb/model.h"

#include "pub_tool_basics.h"

/* A further machine or page size; by number as in struct tlb_views. */
struct view_option {
	const HChar *text;		/* as it was given */
	const HChar *core_text;
	struct timing_config core;	/* the core that it is timed on */
};

/* Where the timing model looks: times are in references. */
struct windows_config {
	ULong period;			/* at first; 0: no windows */
	ULong warm, measured;
	UInt most;			/* windows of a process image */
	struct timing_config core;
	const HChar *core_text;		/* as it was given */
};

/* Which references the NUMA model sees, in references of each thread: numa.h. */
struct numa_config {
	ULong period, warm, measured;	/* period 0: none */
	struct placement_config caches;
};

struct options {
	struct tlb_config tlb;
	struct windows_config windows;
	UInt view_count;
	struct tlb_view_config view_configs[TLB_MOST_VIEWS];
	struct view_option views[TLB_MOST_VIEWS];
	struct numa_config numa;
	Bool filter;			/* --filter=no: call for every reference */
	Bool attribute;			/* attribute misses to memory and code */
	const HChar *counts_dir;
};

extern const struct options options;

/* Declare the options; after they were read, complain and complete. */
void options_register(void);
void options_check(void);

#endif
