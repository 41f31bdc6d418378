/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which thread runs now, and what time is it?  References change the state of
 * the current thread; main.c switches it.
 */
#ifndef TLBSIM_CURRENT_H
#define TLBSIM_CURRENT_H

#include "run.h"

#include "tlb/model.h"
#include "tlb/touched.h"

struct timing;

struct current {
	ThreadId thread;
	struct tlb_model *model;
	const struct run *run;		/* the model sees its references, or saw them last */
	struct timing **timing;		/* NULL before its first window */
};

extern struct current current;

/*
 * The filters of the current thread, at addresses that code is compiled
 * against; main.c saves and loads them when the thread changes.
 */
extern struct tlb_filter tlbsim_data_filter, tlbsim_code_filter;

/*
 * Time: the number of references at the end of the block that runs now.  Each block adds its
 * own on entry, even if it exits early, so times never decrease.
 */
extern ULong tlbsim_clock;

/* Pages that the process has touched. */
extern struct touched tlbsim_touched;

#endif
