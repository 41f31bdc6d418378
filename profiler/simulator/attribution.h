/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Page walks by memory region and by code: the misses of the process by memory, by code, and
 * over time.
 */
#ifndef TLBSIM_ATTRIBUTION_H
#define TLBSIM_ATTRIBUTION_H

#include "tlb/model.h"
#include "tlb/phases.h"

#include "pub_tool_basics.h"

/* A new process image; all below is called only if options.attribute is set. */
void attribution_start(void);
void attribution_missed(enum tlb_size size, uint64_t address,
			enum tlb_side side, bool walk);
/* May the call change what is mapped?  Before, and after it succeeded. */
Bool attribution_maps(UInt number);
void attribution_before(UInt number, const UWord *args);
void attribution_after(ThreadId tid, UInt number, const UWord *args, UWord result);
/* In a window: a modelled miss, and ticks for which the core waited. */
void attribution_modelled(enum tlb_size size, uint64_t address, bool walk);
void attribution_waited(bool huge, uint64_t address, uint64_t time);

extern struct phases attribution_phases;

#endif
