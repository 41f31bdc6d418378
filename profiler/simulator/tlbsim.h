/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tlbsim, the Valgrind tool: which of a program's references would miss the
 * TLBs, on base pages and on huge pages, and in which of further machines?
 *
 *   options.c, view_options.c
 *                 the command line
 *   main.c        threads, fork and exec: when a model starts and ends
 *   spans.c       which pages of a size there can be
 *   instrument.c  what is added to the program's code, statement by statement:
 *   runs.c          data references,
 *   fetches.c       instruction fetches,
 *   block.c         and the expressions that they are made of
 *   references.c  what that code calls when a reference may change the model
 *   trace.c, values.c, latencies.c
 *                 what the timing model (profiler/timing/) needs of the code
 *   windows.c, cores.c
 *                 when that model sees it, and on which cores
 *   attribution.c what is told of each miss, and of calls that map memory:
 *   places.c, places_resolve.c
 *                   which memory it is in,
 *   code.c          and which instruction and calls it is from
 *   placing.c     which thread goes to memory for which page (profiler/numa/)
 *   counts.c, results.c, view_tables.c, attribution_tables.c, code_tables.c, placed.c
 *                 the tables that a process leaves behind
 */
#ifndef TLBSIM_H
#define TLBSIM_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

#include "config.h"
#include "model.h"
#include "placement.h"
#include "touched.h"

/* One memory reference of a block of code. */
struct reference {
	Long offset;		/* from its base, or an address if absolute */
	UShort size;		/* bytes */
	UChar base;		/* index of its base, or REFERENCE_ABSOLUTE */
	UChar side;		/* TLB_LOAD or TLB_STORE */
	Int instruction;	/* that makes it: bytes from the run's */
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
	/* Of references' instructions. */
	ULong instruction;
	/* Bytes from the stack pointer to where it was before a call or return at the end. */
	Int stack_delta;
	UInt range_count;
	struct range ranges[RUN_BASES];	/* in the order of `last` */
	UInt count;
	struct reference references[];
};

struct timing;

/* A further machine or page size; by number as in struct tlb_views. */
struct view_option {
	const HChar *text;		/* as it was given */
	const HChar *core_text;
	struct timing_config core;	/* that it is timed on */
};

/* Where the timing model looks: times are in references. */
struct windows_config {
	ULong period;			/* at first; 0: no windows */
	ULong warm, measured;
	UInt most;			/* windows of a process image */
	struct timing_config core;
	const HChar *core_text;		/* as it was given */
};

/* Which references placing looks at, in references of each thread: placing.h. */
struct placing_config {
	ULong period, warm, measured;	/* period 0: none */
	struct placement_config caches;
};

/* What the thread that runs now is in. */
enum placing_phase { PLACING_SKIP, PLACING_WARM, PLACING_COUNT };

struct placing_times {
	ULong origin;		/* time at which the process image began */
	ULong interval, ends;	/* length of the current one, and its end */
};

struct tlbsim {
	struct tlb_config config;
	struct windows_config windows;
	UInt view_count;
	struct tlb_view_config view_configs[TLB_MOST_VIEWS];
	struct view_option views[TLB_MOST_VIEWS];
	struct placing_config placing;
	Bool filter;			/* --filter=no: call for every reference */
	Bool attribute;			/* walks by memory and code, too */
	const HChar *counts_dir;
	struct touched touched;		/* of the process */
	/* Of the thread that runs now: */
	ThreadId running;
	struct tlb_model *model;
	const struct run *run;		/* whose references are taken; or were last */
	struct timing **timing;		/* NULL before its first window */
};

extern struct tlbsim tlbsim;
extern struct placement tlbsim_placement;
extern struct placing_times tlbsim_placing_times;

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
/* What --core takes: change these fields of a core; False if it is none of them. */
Bool tlbsim_parse_core(const HChar *text, struct timing_config *core);
/* Read "entries:ways"; returns what follows, or NULL. */
const HChar *tlbsim_parse_level(const HChar *text, struct tlb_geometry *level);
Bool tlbsim_parse_page(const HChar *text, UInt *shift);
/* view_options.c: what --view takes, and --view-core for the view before. */
Bool tlbsim_parse_view(const HChar *text);
Bool tlbsim_parse_view_core(const HChar *text);

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

/* The name of the counts file; NULL: none could be made. */
const HChar *tlbsim_counts_path(void);

/* results.c: the same of the windows, into this file. */
void tlbsim_windows_write(const HChar *path, const HChar *state);

/* Number of the image among those of its process ID; -1: it has no file. */
Int tlbsim_image(void);

/* view_tables.c: what the views of this image counted, and how long they took. */
void tlbsim_views_write(Int image, const HChar *state,
			const struct tlb_counts counts[TLB_MOST_VIEWS][TLB_SIDES]);

#endif
