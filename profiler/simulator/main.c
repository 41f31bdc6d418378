/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Threads, fork and exec: when a model starts, and when it ends. */
#include "attribution.h"
#include "placing.h"
#include "spans.h"
#include "windows.h"

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
	struct placing_thread placing;
};

struct tlb_filter tlbsim_data_filter, tlbsim_code_filter;
ULong tlbsim_clock = 1;	/* time 0 is that of empty entries */

static struct thread **threads;		/* by thread ID; NULL: never ran */
static UInt threads_run;
/* Counts of threads that have ended. */
static struct tlb_counts ended[TLB_SIZES][TLB_SIDES];
static struct tlb_counts ended_views[TLB_MOST_VIEWS][TLB_SIDES];

static void *allocate(size_t bytes)
{
	return VG_(calloc)("tlbsim.touched", 1, bytes);
}

static bool is_anonymous(uint64_t address)
{
	const NSegment *segment = VG_(am_find_nsegment)((Addr)address);

	return segment && segment->kind == SkAnonC;
}

/* A page's first touch finds no entry anywhere: only walks can be it. */
static void walked(uint64_t address)
{
	touched_note(&tlbsim.touched, address);
	if (tlbsim.placing.period)
		placing_walked(address);
}

/* Further machines watch the thread's model. */
static void watch(struct thread *thread)
{
	thread->views_memory = NULL;
	if (!tlbsim.view_count)
		return;
	thread->views_memory = VG_(malloc)(
		"tlbsim.views", tlb_views_bytes(tlbsim.view_configs,
						tlbsim.view_count,
						&tlbsim.config));
	tlb_views_init(&thread->views, tlbsim.view_configs, tlbsim.view_count,
		       &tlbsim.config, thread->views_memory);
	thread->views.data.backed = thread->views.code.backed = spanned;
	tlb_model_watch(&thread->model, &thread->views);
}

/* The new thread's model takes the place of the running one's filters. */
static struct thread *make_thread(void)
{
	struct thread *thread = VG_(malloc)("tlbsim.thread", sizeof(*thread));
	Bool filter = tlbsim.filter;

	thread->memory = VG_(malloc)("tlbsim.levels",
				     tlb_model_bytes(&tlbsim.config));
	tlb_model_init(&thread->model, &tlbsim.config, thread->memory,
		       filter ? &tlbsim_data_filter : NULL,
		       filter ? &tlbsim_code_filter : NULL);
	watch(thread);
	thread->model.walked = walked;
	thread->model.missed =
		tlbsim.attribute || tlbsim.windows.period ? windows_missed : NULL;
	thread->data_filter = tlbsim_data_filter;
	thread->code_filter = tlbsim_code_filter;
	thread->timing = NULL;
	threads_run++;
	placing_thread_start(&thread->placing, threads_run);
	return thread;
}

static void start_client_code(ThreadId tid, ULong blocks_done)
{
	struct thread *next;

	(void)blocks_done;
	if (tid == tlbsim.running)
		return;
	windows_switch();
	if (tlbsim.running != VG_INVALID_THREADID && threads[tlbsim.running]) {
		threads[tlbsim.running]->data_filter = tlbsim_data_filter;
		threads[tlbsim.running]->code_filter = tlbsim_code_filter;
	}
	if (!threads[tid])
		threads[tid] = make_thread();
	next = threads[tid];
	placing_switch(&next->placing);
	tlbsim_data_filter = next->data_filter;
	tlbsim_code_filter = next->code_filter;
	tlbsim.model = &next->model;
	tlbsim.timing = &next->timing;
	tlbsim.running = tid;
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
	struct tlb_model *running = tlbsim.model;

	tlbsim.model = model;
	tlbsim.run = NULL;
	tlb_model_flush(model);
	tlbsim.model = running;
}

static void add_counts(struct tlb_counts sum[TLB_SIZES][TLB_SIDES],
		       struct tlb_counts views[TLB_MOST_VIEWS][TLB_SIDES],
		       struct thread *thread)
{
	flush(&thread->model);
	for (Int size = 0; size < TLB_SIZES; size++)
		add(sum[size], thread->model.counts[size]);
	for (UInt view = 0; view < tlbsim.view_count; view++)
		add(views[view], tlb_view_counts(&thread->views, view));
}

static void drop_thread(ThreadId tid)
{
	struct thread *thread = threads[tid];

	if (tlbsim.running == tid)
		windows_switch();
	timing_drop(thread->timing);
	placing_drop(&thread->placing);
	VG_(free)(thread->memory);
	if (thread->views_memory)
		VG_(free)(thread->views_memory);
	VG_(free)(thread);
	threads[tid] = NULL;
	if (tlbsim.running == tid)
		tlbsim.running = VG_INVALID_THREADID;
}

/* Its ID may be given to a new thread, which starts with empty TLBs. */
static void thread_exit(ThreadId tid)
{
	if (!threads[tid])
		return;
	add_counts(ended, ended_views, threads[tid]);
	drop_thread(tid);
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
	tlbsim_counts_write(state, sum, threads_run);
	tlbsim_views_write(tlbsim_image(), state, views);
	if (tlbsim.attribute)
		attribution_write(state);
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
	touched_reset(&tlbsim.touched);
	windows_start();
	if (tlbsim.attribute)
		attribution_start();
	placing_start();
	tlbsim_counts_start();
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
	for (ThreadId other = 1; tlbsim.attribute && other < VG_N_THREADS; other++)
		if (threads[other] && other != tid && attribution_maps(number))
			flush(&threads[other]->model);
	if (threads[tid])
		flush(&threads[tid]->model);
	if (tlbsim.attribute)
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
	if (tlbsim.attribute && !sr_isError(result))
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
	tlbsim_options_check();
	tlbsim.running = VG_INVALID_THREADID;
	threads = VG_(calloc)("tlbsim.threads", VG_N_THREADS, sizeof(*threads));
	tlbsim.touched = (struct touched){
		.allocate = allocate,
		.release = VG_(free),
		.anonymous = is_anonymous,
		.base_shift = tlbsim.config.page_shift[TLB_BASE],
		.huge_shift = tlbsim.config.page_shift[TLB_HUGE],
	};
	if (touched_init(&tlbsim.touched) != 0)
		tlbsim.touched.failed = true;
	windows_start();
	if (tlbsim.attribute)
		attribution_start();
	placing_start();
	tlbsim_counts_start();
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
	tlbsim_options_register();
	VG_(needs_syscall_wrapper)(pre_syscall, post_syscall);
	VG_(track_start_client_code)(start_client_code);
	VG_(track_pre_thread_ll_exit)(thread_exit);
	VG_(atfork)(NULL, NULL, forked);
}

VG_DETERMINE_INTERFACE_VERSION(pre_options)
