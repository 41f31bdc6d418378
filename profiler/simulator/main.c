/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Options, threads, fork and exec: when a model starts, and when it ends. */
#include "tlbsim.h"

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
	void *memory;					/* of its levels */
	struct tlb_filter data_filter, code_filter;	/* while it does not run */
};

struct tlbsim tlbsim = {
	/* What most x86 cores of the 2010s have; the command line says better. */
	.config = {
		.page_shift = { 12, 21 },
		.l1d = { { 64, 4 }, { 32, 4 } },
		.l1i = { { 64, 8 }, { 8, 8 } },
		.stlb = { { 1536, 12 }, { 1536, 12 } },
	},
	.filter = True,
};
struct tlb_filter tlbsim_data_filter, tlbsim_code_filter;
ULong tlbsim_clock = 1;	/* time 0 is that of empty entries */

static struct thread **threads;		/* by thread ID; NULL: never ran */
static ThreadId running = VG_INVALID_THREADID;
static UInt threads_run;
/* Counts of threads that have ended. */
static struct tlb_counts ended[TLB_SIZES][TLB_SIDES];

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
	thread->model.walked = walked;
	thread->data_filter = tlbsim_data_filter;
	thread->code_filter = tlbsim_code_filter;
	threads_run++;
	return thread;
}

static void start_client_code(ThreadId tid, ULong blocks_done)
{
	struct thread *next;

	(void)blocks_done;
	if (tid == running)
		return;
	if (running != VG_INVALID_THREADID && threads[running]) {
		threads[running]->data_filter = tlbsim_data_filter;
		threads[running]->code_filter = tlbsim_code_filter;
	}
	if (!threads[tid])
		threads[tid] = make_thread();
	next = threads[tid];
	tlbsim_data_filter = next->data_filter;
	tlbsim_code_filter = next->code_filter;
	tlbsim.model = &next->model;
	running = tid;
}

static void add_counts(struct tlb_counts sum[TLB_SIZES][TLB_SIDES],
		       struct tlb_model *model)
{
	tlb_model_flush(model);
	for (Int size = 0; size < TLB_SIZES; size++)
		for (Int side = 0; side < TLB_SIDES; side++) {
			const struct tlb_counts *c =
				&model->counts[size][side];

			sum[size][side].l1_misses += c->l1_misses;
			sum[size][side].stlb_hits += c->stlb_hits;
			sum[size][side].stlb_misses += c->stlb_misses;
		}
}

static void drop_thread(ThreadId tid)
{
	struct thread *thread = threads[tid];

	VG_(free)(thread->memory);
	VG_(free)(thread);
	threads[tid] = NULL;
	if (running == tid)
		running = VG_INVALID_THREADID;
}

/* Its ID may be given to a new thread, which starts with empty TLBs. */
static void thread_exit(ThreadId tid)
{
	if (!threads[tid])
		return;
	add_counts(ended, &threads[tid]->model);
	drop_thread(tid);
}

static void write_counts(const HChar *state)
{
	struct tlb_counts sum[TLB_SIZES][TLB_SIDES];

	VG_(memcpy)(sum, ended, sizeof(sum));
	for (ThreadId tid = 1; tid < VG_N_THREADS; tid++)
		if (threads[tid])
			add_counts(sum, &threads[tid]->model);
	tlbsim_counts_write(state, sum, threads_run);
}

/* The child has the one thread that called fork(), and TLBs of its own. */
static void forked(ThreadId tid)
{
	(void)tid;
	for (ThreadId other = 1; other < VG_N_THREADS; other++)
		if (threads[other])
			drop_thread(other);
	VG_(memset)(ended, 0, sizeof(ended));
	threads_run = 0;
	touched_reset(&tlbsim.touched);
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
	(void)args, (void)count;
	if (threads[tid])
		tlb_model_flush(&threads[tid]->model);
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
	(void)tid, (void)number, (void)args, (void)count, (void)result;
}

static void finish(Int exit_code)
{
	(void)exit_code;
	write_counts("exited");
}

/* Read "entries:ways"; returns what follows, or NULL. */
static const HChar *parse_level(const HChar *text, struct tlb_geometry *level)
{
	HChar *end;
	Long entries = VG_(strtoll10)(text, &end), ways;

	if (end == text || *end != ':')
		return NULL;
	text = end + 1;
	ways = VG_(strtoll10)(text, &end);
	if (end == text || entries < 0 || entries > 1 << 20 || ways < 0 ||
	    ways > entries)
		return NULL;
	level->entries = (UInt)entries;
	level->ways = (UInt)ways;
	return tlb_geometry_valid(*level) ? end : NULL;
}

/* Read the levels for base and for huge pages: "96:6,32:4". */
static Bool parse_geometry(const HChar *text,
			   struct tlb_geometry levels[TLB_SIZES], Bool required)
{
	text = parse_level(text, &levels[TLB_BASE]);
	if (!text || *text != ',')
		return False;
	text = parse_level(text + 1, &levels[TLB_HUGE]);
	if (!text || *text)
		return False;
	return !required || (levels[TLB_BASE].entries && levels[TLB_HUGE].entries);
}

static Bool parse_page(const HChar *text, UInt *shift)
{
	HChar *end;
	Long bytes = VG_(strtoll10)(text, &end);

	if (*end || bytes < 4096 || (bytes & (bytes - 1)))
		return False;
	for (*shift = 0; 1LL << *shift < bytes; ++*shift)
		;
	return True;
}

static Bool process_option(const HChar *option)
{
	struct tlb_config *config = &tlbsim.config;
	const HChar *value;
	Bool good = True;

	if VG_BOOL_CLO(option, "--filter", tlbsim.filter) {}
	else if VG_STR_CLO(option, "--counts-dir", tlbsim.counts_dir) {}
	else if VG_STR_CLO(option, "--base-page", value)
		good = parse_page(value, &config->page_shift[TLB_BASE]);
	else if VG_STR_CLO(option, "--huge-page", value)
		good = parse_page(value, &config->page_shift[TLB_HUGE]);
	else if VG_STR_CLO(option, "--l1d", value)
		good = parse_geometry(value, config->l1d, True);
	else if VG_STR_CLO(option, "--l1i", value)
		good = parse_geometry(value, config->l1i, True);
	else if VG_STR_CLO(option, "--stlb", value)
		good = parse_geometry(value, config->stlb, False);
	else
		return False;
	if (!good)
		VG_(fmsg_bad_option)(option, "not a page size or geometry\n");
	return True;
}

static void print_usage(void)
{
	VG_(printf)(
"    --counts-dir=DIR          where each process leaves its counts [.]\n"
"    --base-page=BYTES         size of a base page [4096]\n"
"    --huge-page=BYTES         size of a huge page [2097152]\n"
"    --l1d=E:W,E:W             entries and ways of the L1 dTLB for base pages,\n"
"                              then for huge pages [64:4,32:4]\n"
"    --l1i=E:W,E:W             the same of the L1 iTLB [64:8,8:8]\n"
"    --stlb=E:W,E:W            the same of the STLB; 0:0 if it has none\n"
"                              [1536:12,1536:12]\n");
}

static void print_debug_usage(void)
{
	VG_(printf)(
"    --filter=no|yes           skip references that cannot change the model,\n"
"                              without a call; the counts are the same [yes]\n");
}

static void post_options(void)
{
	if (tlbsim.config.page_shift[TLB_BASE] >=
	    tlbsim.config.page_shift[TLB_HUGE])
		VG_(fmsg_bad_option)("--huge-page", "not above --base-page\n");
	if (!tlbsim.counts_dir)
		tlbsim.counts_dir = ".";
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
	VG_(needs_command_line_options)(process_option, print_usage,
					print_debug_usage);
	VG_(needs_syscall_wrapper)(pre_syscall, post_syscall);
	VG_(track_start_client_code)(start_client_code);
	VG_(track_pre_thread_ll_exit)(thread_exit);
	VG_(atfork)(NULL, NULL, forked);
}

VG_DETERMINE_INTERFACE_VERSION(pre_options)
