/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "threads.h"
#include "current.h"
#include "numa.h"
#include "options.h"
#include "reuse_samples.h"
#include "spans.h"
#include "windows.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_threadstate.h"

/* Every thread has its own TLBs, as if it had its own core. */
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

/* A page's first touch finds no entry anywhere, so only a walk can be one. */
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
		"tlbsim.views", tlb_views_bytes(options.view_configs,
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
	thread->model.data.withheld = reuse_samples_below ? reuse_samples_has : NULL;
	thread->model.missed =
		options.attribute || options.windows.period ? windows_missed : NULL;
	thread->data_filter = tlbsim_data_filter;
	thread->code_filter = tlbsim_code_filter;
	thread->timing = NULL;
	threads_run++;
	numa_thread_start(&thread->numa, threads_run);
	return thread;
}

void threads_start(void)
{
	threads = VG_(calloc)("tlbsim.threads", VG_N_THREADS, sizeof(*threads));
}

void threads_switch(ThreadId tid)
{
	struct thread *next;

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

/* For any thread, not only the current one. */
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

void threads_exit(ThreadId tid)
{
	if (!threads[tid])
		return;
	add_counts(ended, ended_views, threads[tid]);
	drop_thread(tid);
}

void threads_flush(ThreadId tid)
{
	if (threads[tid])
		flush(&threads[tid]->model);
}

void threads_flush_others(ThreadId tid)
{
	for (ThreadId other = 1; other < VG_N_THREADS; other++)
		if (other != tid)
			threads_flush(other);
}

UInt threads_count(struct tlb_counts sum[TLB_SIZES][TLB_SIDES],
		   struct tlb_counts views[TLB_MOST_VIEWS][TLB_SIDES])
{
	VG_(memcpy)(sum, ended, sizeof(ended));
	VG_(memcpy)(views, ended_views, sizeof(ended_views));
	for (ThreadId tid = 1; tid < VG_N_THREADS; tid++)
		if (threads[tid])
			add_counts(sum, views, threads[tid]);
	return threads_run;
}

void threads_forget(void)
{
	for (ThreadId tid = 1; tid < VG_N_THREADS; tid++)
		if (threads[tid])
			drop_thread(tid);
	VG_(memset)(ended, 0, sizeof(ended));
	VG_(memset)(ended_views, 0, sizeof(ended_views));
	threads_run = 0;
}
