/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Every thread has its own TLBs, as if it had its own core. */
#ifndef TLBSIM_THREADS_H
#define TLBSIM_THREADS_H

#include "tlb/model.h"

#include "pub_tool_basics.h"

/* Once, before any thread runs. */
void threads_start(void);

/* This thread runs from now on. */
void threads_switch(ThreadId tid);

/* It has ended.  Its ID may be given to a new thread, which starts with empty TLBs. */
void threads_exit(ThreadId tid);

/* Process the references queued for the thread's model; for those of all others. */
void threads_flush(ThreadId tid);
void threads_flush_others(ThreadId tid);

/* The counts of all threads, in all and of each view; returns how many threads ran. */
UInt threads_count(struct tlb_counts sum[TLB_SIZES][TLB_SIDES],
		   struct tlb_counts views[TLB_MOST_VIEWS][TLB_SIDES]);

/* No thread has run. */
void threads_forget(void);

#endif
