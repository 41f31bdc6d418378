/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tlbsim, the Valgrind tool: which of a program's references would miss the
 * TLBs, on base pages and on huge pages, and in which of further machines?
 *
 *   options.c     the command line (with profiler/engine/)
 *   main.c        fork, exec and system calls: when a process image starts and ends
 *   threads.c     when a thread's model starts and ends
 *   current.c     which thread runs now, and what time is it
 *   spans.c       which pages of a size there can be
 *   region.c      which part of the program is looked at
 *   instrument.c  what is added to the program's code, statement by statement:
 *   runs.c          data references,
 *   fetches.c       instruction fetches,
 *   emit.c          and the expressions that they are made of
 *   references.c  what that code calls when a reference may change the model
 *   dataflow.c, dataflow_values.c, notes.c, latencies.c
 *                 what the timing model (profiler/timing/) needs of the code
 *   windows.c, cores.c, walk_ages.c, reuse_samples.c
 *                 when that model sees it, on which cores, and what it knows of the whole run
 *   attribution.c what a miss is attributed to, and calls that map memory:
 *   mappings.c, mappings_resolve.c
 *                   which memory it is in,
 *   code.c          and which instruction and calls it is from
 *   numa.c        which thread accesses memory for which page (profiler/numa/)
 *   table.c, *_table.c, *_tables.c, names.c
 *                 the tables that a process leaves behind
 */
#include "attribution.h"
#include "code_tables.h"
#include "counts_table.h"
#include "current.h"
#include "instrument.h"
#include "memory_tables.h"
#include "numa.h"
#include "numa_tables.h"
#include "options.h"
#include "region.h"
#include "spans.h"
#include "table.h"
#include "threads.h"
#include "views_tables.h"
#include "windows.h"
#include "windows_table.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcassert.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_threadstate.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

static void *allocate(size_t bytes)
{
	return VG_(calloc)("tlbsim.touched", 1, bytes);
}

static bool is_anonymous(uint64_t address)
{
	const NSegment *segment = VG_(am_find_nsegment)((Addr)address);

	return segment && segment->kind == SkAnonC;
}

static void start_client_code(ThreadId tid, ULong blocks_done)
{
	(void)blocks_done;
	threads_switch(tid);
}

/* Those that a process has from its start; counts NULL: there are none yet. */
static void write_tables(const HChar *state,
			 const struct tlb_counts counts[TLB_SIZES][TLB_SIDES],
			 UInt threads)
{
	counts_table_write(state, counts, threads);
	windows_table_write(state);
	numa_tables_write(state);
}

static void write_all_tables(const HChar *state)
{
	struct tlb_counts sum[TLB_SIZES][TLB_SIDES];
	struct tlb_counts views[TLB_MOST_VIEWS][TLB_SIDES];
	UInt threads = threads_count(sum, views);

	write_tables(state, sum, threads);
	views_tables_write(state, views);
	if (!options.attribute)
		return;
	code_tables_start();
	memory_tables_write(state);
	code_tables_write(state);
}

/* A new process image: nothing was counted, and tables say that it runs. */
static void start_image(void)
{
	windows_start();
	if (options.attribute)
		attribution_start();
	numa_start();
	table_claim("counts");
	write_tables("running", NULL, 0);
}

/* The child has only the thread that called fork(), and its own TLBs. */
static void forked(ThreadId tid)
{
	(void)tid;
	threads_forget();
	touched_reset(&tlbsim_touched);
	start_image();
}

/*
 * Note touched pages before the call may change what is mapped there.
 *
 * A successful exec ends this image silently.  Write the tables before it; if it fails, the
 * process continues and writes them again.
 */
static void pre_syscall(ThreadId tid, UInt number, UWord *args, UInt count)
{
	(void)count;
	/* Queued references of any thread may be to memory that is being unmapped. */
	if (options.attribute && attribution_maps(number))
		threads_flush_others(tid);
	threads_flush(tid);
	if (options.attribute)
		attribution_before(number, args);
	if (number == __NR_execve
#ifdef __NR_execveat
	    || number == __NR_execveat
#endif
	)
		write_all_tables("exec");
}

static void post_syscall(ThreadId tid, UInt number, UWord *args, UInt count,
			 SysRes result)
{
	(void)count;
	if (options.attribute && !sr_isError(result))
		attribution_after(tid, number, args, sr_Res(result));
	spans_forget();
}

static void finish(Int exit_code)
{
	(void)exit_code;
	write_all_tables("exited");
}

static void post_options(void)
{
	options_check();
	region_reset();
	threads_start();
	tlbsim_touched = (struct touched){
		.allocate = allocate,
		.release = VG_(free),
		.anonymous = is_anonymous,
		.base_shift = options.tlb.page_shift[TLB_BASE],
		.huge_shift = options.tlb.page_shift[TLB_HUGE],
	};
	if (touched_init(&tlbsim_touched) != 0)
		tlbsim_touched.failed = true;
	start_image();
}

static void pre_options(void)
{
	VG_(details_name)("tlbsim");
	VG_(details_version)(NULL);
	VG_(details_description)("a model of the TLBs on two page sizes");
	VG_(details_copyright_author)("The tlbcost authors, GPL-2.0-or-later");
	VG_(details_bug_reports_to)("the tlbcost project");
	VG_(details_avg_translation_sizeB)(500);
	/* Speed matters more than exact registers at a fault. */
	VG_(clo_vex_control).iropt_register_updates_default =
		VexRegUpdSpAtMemAccess;
	VG_(basic_tool_funcs)(post_options, tlbsim_instrument, finish);
	options_register();
	VG_(needs_syscall_wrapper)(pre_syscall, post_syscall);
	VG_(track_start_client_code)(start_client_code);
	VG_(track_pre_thread_ll_exit)(threads_exit);
	VG_(atfork)(NULL, NULL, forked);
}

VG_DETERMINE_INTERFACE_VERSION(pre_options)
