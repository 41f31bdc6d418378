/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tlbsim, the Valgrind tool: which of a program's references would miss the
 * TLBs, on base pages and on huge pages?
 *
 *   options.c     the command line
 *   main.c        threads, fork and exec: when a model starts and ends
 *   instrument.c  what is added to the program's code, statement by statement:
 *   runs.c          data references,
 *   fetches.c       instruction fetches,
 *   block.c         and the expressions that they are made of
 *   references.c  what that code calls when a reference may change the model
 *   trace.c, values.c, latencies.c
 *                 what the timing model (profiler/timing/) needs of the code
 *   windows.c     when that model sees it
 *   counts.c, results.c
 *                 the tables that a process leaves behind
 */
#ifndef TLBSIM_H
#define TLBSIM_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

#include "config.h"
#include "model.h"
#include "touched.h"

/* One memory reference of a block of code. */
struct reference {
	Long offset;		/* from its base, or an address if absolute */
	UShort size;		/* bytes */
	UChar base;		/* index of its base, or REFERENCE_ABSOLUTE */
	UChar side;		/* TLB_LOAD or TLB_STORE */
};

#define REFERENCE_ABSOLUTE 255
/* Arguments that fit in registers beside the descriptor, on every host. */
#define RUN_BASES 4
#define RUN_REFERENCES 24

/* References to one base, or to absolute addresses near each other. */
struct range {
	Long low;		/* offset of the first byte, as in a reference */
	UShort last;		/* index in the run of its last reference */
	UChar base;
};

/* A run of references that is tested at once, in program order. */
struct run {
	struct run *next;	/* of the same block, while it is instrumented */
	/* How far its first reference is from the end of its block. */
	UInt remaining;
	UInt range_count;
	struct range ranges[RUN_BASES];	/* in the order of `last` */
	UInt count;
	struct reference references[];
};

struct timing;

/* Where the timing model looks: times are in references. */
struct windows_config {
	ULong period;			/* at first; 0: no windows */
	ULong warm, measured;
	UInt most;			/* windows of a process image */
	struct timing_config core;
	const HChar *core_text;		/* as it was given */
};

struct tlbsim {
	struct tlb_config config;
	struct windows_config windows;
	Bool filter;			/* --filter=no: call for every reference */
	const HChar *counts_dir;
	struct touched touched;		/* of the process */
	/* Of the thread that runs now: */
	ThreadId running;
	struct tlb_model *model;
	struct timing **timing;		/* NULL before its first window */
};

extern struct tlbsim tlbsim;

/*
 * The filters of the thread that runs now, at addresses that code is compiled
 * against; main.c saves and loads them when the thread changes.
 */
extern struct tlb_filter tlbsim_data_filter, tlbsim_code_filter;

/*
 * Time: the number of references at the end of the block that runs now.  Each
 * block adds its own on entry, whether it will leave early or not, so that
 * times only ever grow.
 */
extern ULong tlbsim_clock;

/* options.c: declare the options; after they were read, complain and complete. */
void tlbsim_options_register(void);
void tlbsim_options_check(void);

/* instrument.c */
IRSB *tlbsim_instrument(VgCallbackClosure *closure, IRSB *in,
			const VexGuestLayout *layout,
			const VexGuestExtents *extents,
			const VexArchInfo *archinfo_host, IRType guest_word,
			IRType host_word);

/* references.c: called from the program's code. */
void tlbsim_run0(const struct run *run);
void tlbsim_run1(const struct run *run, ULong b0);
void tlbsim_run2(const struct run *run, ULong b0, ULong b1);
void tlbsim_run3(const struct run *run, ULong b0, ULong b1, ULong b2);
void tlbsim_run4(const struct run *run, ULong b0, ULong b1, ULong b2, ULong b3);
void tlbsim_fetch(ULong address, ULong time);

/*
 * counts.c: the process's counts file.  Claim a new name and write it with
 * state "running" and no rows; then, once or more, write it whole.  A file
 * that cannot be written is complained about in Valgrind's log.
 */
void tlbsim_counts_start(void);
void tlbsim_counts_write(const HChar *state,
			 const struct tlb_counts counts[TLB_SIZES][TLB_SIDES],
			 UInt threads);

/* results.c: the same of the windows, into this file. */
void tlbsim_windows_write(const HChar *path, const HChar *state);

#endif
