/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * tlbsim, the Valgrind tool: which of a program's references would miss the
 * TLBs, on base pages and on huge pages, and in which of further machines?
 *
 *   options.c, view_options.c, parse.c
 *                 the command line
 *   main.c        threads, fork and exec: when a model starts and ends
 *   current.c     which thread runs now, and what time is it
 *   spans.c       which pages of a size there can be
 *   instrument.c  what is added to the program's code, statement by statement:
 *   runs.c          data references,
 *   fetches.c       instruction fetches,
 *   emit.c          and the expressions that they are made of
 *   references.c  what that code calls when a reference may change the model
 *   dataflow.c, dataflow_values.c, notes.c, latencies.c
 *                 what the timing model (profiler/timing/) needs of the code
 *   windows.c, schedule.c, cores.c, walk_ages.c
 *                 when that model sees it, and on which cores
 *   attribution.c what a miss is attributed to, and calls that map memory:
 *   mappings.c, mappings_resolve.c
 *                   which memory it is in,
 *   code.c          and which instruction and calls it is from
 *   numa.c        which thread goes to memory for which page (profiler/numa/)
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
#include "spans.h"
#include "table.h"
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

/* Every thread has TLBs of its own, as if each ran on a core of its own. */
struct thread {
	struct tlb_model model;
	struct tlb_views views;
	void *memory, *views_memory;			/* of their levels */
	struct tlb_filter data_filter, code_filter;	/* while it does not run */
	struct timing *timing;
	struct numa_thread numa;
};

static struct thread **threads;		/* by thread ID; NULL: never ran */
static UInt threads_run;
/* Counts of threads that have ended. */
static struct tlb_counts ended[TLB_SIZES][TLB_SIDES];
static struct tlb_counts ended_views[TLB_MOST_VIEWS][TLB_SIDES];

static void *allocate(size_t bytes)
{
	return VG_(calloc)("tlbsim_touched", 1, bytes);
}

static bool is_anonymous(uint64_t address)
{
	const NSegment *segment = VG_(am_find_nsegment)((Addr)address);

	return segment && segment->kind == SkAnonC;
}

/* A page's first touch finds no entry anywhere: only walks can be it. */
static void walked(uint64_t address)
{
	touched_note(&tlbsim_touched, address);
	if (options.numa.period)
		numa_walked(address);
}

/* Further machines watch the thread's model. */
static void watch(struct thread *thread)
{
	thread->views_memory = NULL;
	if (!options.view_count)
		return;
	thread->views_memory = VG_(malloc)(
		"options.views", tlb_views_bytes(options.view_configs,
						options.view_count,
						&options.tlb));
	tlb_views_init(&thread->views, options.view_configs, options.view_count,
		       &options.tlb, thread->views_memory);
	thread->views.data.backed = thread->views.code.backed = spanned;
	tlb_model_watch(&thread->model, &thread->views);
}

/* The new thread's model takes the place of the running one's filters. */
static struct thread *make_thread(void)
{
	struct thread *thread = VG_(malloc)("tlbsim.thread", sizeof(*thread));
	Bool filter = options.filter;

	thread->memory = VG_(malloc)("tlbsim.levels",
				     tlb_model_bytes(&options.tlb));
	tlb_model_init(&thread->model, &options.tlb, thread->memory,
		       filter ? &tlbsim_data_filter : NULL,
		       filter ? &tlbsim_code_filter : NULL);
	watch(thread);
	thread->model.walked = walked;
	thread->model.missed =
		options.attribute || options.windows.period ? windows_missed : NULL;
	thread->data_filter = tlbsim_data_filter;
	thread->code_filter = tlbsim_code_filter;
	thread->timing = NULL;
	threads_run++;
	numa_thread_start(&thread->numa, threads_run);
	return thread;
}

static void start_client_code(ThreadId tid, ULong blocks_done)
{
	struct thread *next;

	(void)blocks_done;
	if (tid == current.thread)
		return;
	windows_switch();
	if (current.thread != VG_INVALID_THREADID && threads[current.thread]) {
		threads[current.thread]->data_filter = tlbsim_data_filter;
		threads[current.thread]->code_filter = tlbsim_code_filter;
	}
	if (!threads[tid])
		threads[tid] = make_thread();
	next = threads[tid];
	numa_switch(&next->numa);
	tlbsim_data_filter = next->data_filter;
	tlbsim_code_filter = next->code_filter;
	current.model = &next->model;
	current.timing = &next->timing;
	current.thread = tid;
}

static void add(struct tlb_counts sum[TLB_SIDES],
		const struct tlb_counts counts[TLB_SIDES])
{
	for (Int side = 0; side < TLB_SIDES; side++) {
		sum[side].l1_misses += counts[side].l1_misses;
		sum[side].stlb_hits += counts[side].stlb_hits;
		sum[side].stlb_misses += counts[side].stlb_misses;
	}
}

/* Of a thread that need not be the one that runs. */
static void flush(struct tlb_model *model)
{
	struct tlb_model *running = current.model;

	current.model = model;
	current.run = NULL;
	tlb_model_flush(model);
	current.model = running;
}

static void add_counts(struct tlb_counts sum[TLB_SIZES][TLB_SIDES],
		       struct tlb_counts views[TLB_MOST_VIEWS][TLB_SIDES],
		       struct thread *thread)
{
	flush(&thread->model);
	for (Int size = 0; size < TLB_SIZES; size++)
		add(sum[size], thread->model.counts[size]);
	for (UInt view = 0; view < options.view_count; view++)
		add(views[view], tlb_view_counts(&thread->views, view));
}

static void drop_thread(ThreadId tid)
{
	struct thread *thread = threads[tid];

	if (current.thread == tid)
		windows_switch();
	timing_drop(thread->timing);
	numa_drop(&thread->numa);
	VG_(free)(thread->memory);
	if (thread->views_memory)
		VG_(free)(thread->views_memory);
	VG_(free)(thread);
	threads[tid] = NULL;
	if (current.thread == tid)
		current.thread = VG_INVALID_THREADID;
}

/* Its ID may be given to a new thread, which starts with empty TLBs. */
static void thread_exit(ThreadId tid)
{
	if (!threads[tid])
		return;
	add_counts(ended, ended_views, threads[tid]);
	drop_thread(tid);
}

/* Those that a process has from its start on. */
static void write_tables(const HChar *state,
			 const struct tlb_counts counts[TLB_SIZES][TLB_SIDES])
{
	counts_table_write(state, counts, counts ? threads_run : 0);
	windows_table_write(state);
	numa_tables_write(state);
}

static void write_counts(const HChar *state)
{
	struct tlb_counts sum[TLB_SIZES][TLB_SIDES];
	struct tlb_counts views[TLB_MOST_VIEWS][TLB_SIDES];

	VG_(memcpy)(sum, ended, sizeof(sum));
	VG_(memcpy)(views, ended_views, sizeof(views));
	for (ThreadId tid = 1; tid < VG_N_THREADS; tid++)
		if (threads[tid])
			add_counts(sum, views, threads[tid]);
	write_tables(state, sum);
	views_tables_write(state, views);
	if (!options.attribute)
		return;
	code_tables_start();
	memory_tables_write(state);
	code_tables_write(state);
}

/* A new process image: nothing was counted, and a table says that it runs. */
static void start_image(void)
{
	windows_start();
	if (options.attribute)
		attribution_start();
	numa_start();
	table_claim("counts");
	write_tables("running", NULL);
}

/* The child has the one thread that called fork(), and TLBs of its own. */
static void forked(ThreadId tid)
{
	(void)tid;
	for (ThreadId other = 1; other < VG_N_THREADS; other++)
		if (threads[other])
			drop_thread(other);
	VG_(memset)(ended, 0, sizeof(ended));
	VG_(memset)(ended_views, 0, sizeof(ended_views));
	threads_run = 0;
	touched_reset(&tlbsim_touched);
	start_image();
}

/*
 * Note touched pages before the call may change what is mapped there.
 *
 * A successful exec ends this image without a word.  Report before it; if it
 * fails, the process goes on and reports again, over this one.
 */
static void pre_syscall(ThreadId tid, UInt number, UWord *args, UInt count)
{
	(void)count;
	/* References of all threads wait that may be to what is unmapped. */
	for (ThreadId other = 1; options.attribute && other < VG_N_THREADS; other++)
		if (threads[other] && other != tid && attribution_maps(number))
			flush(&threads[other]->model);
	if (threads[tid])
		flush(&threads[tid]->model);
	if (options.attribute)
		attribution_before(number, args);
	if (number == __NR_execve
#ifdef __NR_execveat
	    || number == __NR_execveat
#endif
	)
		write_counts("exec");
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
	write_counts("exited");
}

static void post_options(void)
{
	options_check();
	threads = VG_(calloc)("tlbsim.threads", VG_N_THREADS, sizeof(*threads));
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
	/* Exact registers at a fault are worth less than speed. */
	VG_(clo_vex_control).iropt_register_updates_default =
		VexRegUpdSpAtMemAccess;
	VG_(basic_tool_funcs)(post_options, tlbsim_instrument, finish);
	options_register();
	VG_(needs_syscall_wrapper)(pre_syscall, post_syscall);
	VG_(track_start_client_code)(start_client_code);
	VG_(track_pre_thread_ll_exit)(thread_exit);
	VG_(atfork)(NULL, NULL, forked);
}

VG_DETERMINE_INTERFACE_VERSION(pre_options)
