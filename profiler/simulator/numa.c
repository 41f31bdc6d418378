/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "numa.h"
#include "current.h"
#include "options.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"

/*
 * References of all threads in the first intervals; they double in a long run.  Valgrind runs
 * one thread for 100,000 blocks before the next has its turn: an interval must contain turns
 * of all threads.
 */
#define FIRST_INTERVAL (1ULL << 22)
/* 200 MB of counts, 64 MB of touches: beyond that there is no table. */
#define MOST_COUNTS ((SizeT)4 << 20)
#define MOST_TOUCHES ((SizeT)4 << 20)

ULong tlbsim_numa_phase;
ULong tlbsim_numa_next_turn = ~0ULL;

struct placement numa_placement;
struct numa_times numa_times;

static struct numa_thread *seen;	/* that runs now; NULL: none */
static ULong pages_seen;		/* touched before the last walk */

static void *allocate(size_t bytes)
{
	return VG_(calloc)("tlbsim.placement", 1, bytes);
}

void numa_start(void)
{
	const struct numa_config *config = &options.numa;
	struct placement *placement = &numa_placement;

	if (!config->period)
		return;
	placement->allocate = allocate;
	placement->release = VG_(free);
	placement->config = config->caches;
	placement->config.base_shift = options.tlb.page_shift[TLB_BASE];
	placement->config.most_counts = MOST_COUNTS;
	placement->config.most_touches = MOST_TOUCHES;
	placement_reset(placement);
	numa_times.origin = tlbsim_clock;
	numa_times.interval = config->period > FIRST_INTERVAL ?
						config->period :
						FIRST_INTERVAL;
	numa_times.ends =
		tlbsim_clock + numa_times.interval;
	pages_seen = 0;
}

/* The length of a thread's phase, in its own references. */
static ULong phase_length(UInt phase)
{
	const struct numa_config *config = &options.numa;

	switch (phase) {
	case NUMA_WARM: return config->warm;
	case NUMA_COUNT: return config->measured;
	default: return config->period - config->warm - config->measured;
	}
}

static void next_phase(struct numa_thread *thread)
{
	static const UInt after[] = {
		[NUMA_SKIP] = NUMA_WARM,
		[NUMA_WARM] = NUMA_COUNT,
		[NUMA_COUNT] = NUMA_SKIP,
	};

	do {
		thread->phase = after[thread->phase];
		thread->left = phase_length(thread->phase);
	} while (!thread->left);
}

void numa_thread_start(struct numa_thread *thread, UInt number)
{
	thread->caches = NULL;
	if (!options.numa.period)
		return;
	/* Numbers that do not fit a key would be another thread's. */
	if (number > 0xffff)
		numa_placement.failed = True;
	thread->caches = placement_thread_new(&numa_placement, number & 0xffff);
	thread->phase = NUMA_SKIP;
	next_phase(thread);
}

static void attach(void)
{
	/* If every reference is counted, phases do not change. */
	const Bool all = options.numa.measured == options.numa.period;

	tlbsim_numa_phase = seen->phase;
	tlbsim_numa_next_turn = all ? ~0ULL : tlbsim_clock + seen->left;
}

static void detach(void)
{
	seen = NULL;
	tlbsim_numa_phase = NUMA_SKIP;
	tlbsim_numa_next_turn = ~0ULL;
}

void numa_switch(struct numa_thread *next)
{
	if (!options.numa.period)
		return;
	if (seen) {
		/* First touches are in the order of threads' turns. */
		tlb_model_flush(current.model);
		seen->left = 1;
		if (tlbsim_numa_next_turn > tlbsim_clock)
			seen->left = tlbsim_numa_next_turn - tlbsim_clock;
	}
	/* Without memory for its caches a thread is not modelled. */
	if (!next->caches) {
		detach();
		numa_placement.failed = True;
		return;
	}
	seen = next;
	attach();
}

void numa_drop(struct numa_thread *thread)
{
	if (!thread->caches)
		return;
	placement_thread_free(&numa_placement, thread->caches);
	thread->caches = NULL;
	if (seen == thread)
		detach();
}

void tlbsim_numa_turn(void)
{
	if (!seen)
		return;
	next_phase(seen);
	attach();
}

/* Could a huge page hold this address now, and is it anonymous at all? */
static enum placement_kind kind_of(ULong address)
{
	const NSegment *segment = VG_(am_find_nsegment)((Addr)address);
	ULong bytes = 1ULL << options.tlb.page_shift[TLB_HUGE];
	ULong region = address & ~(bytes - 1);

	if (!segment || segment->kind != SkAnonC)
		return PLACEMENT_OTHER;
	return segment->start <= region && segment->end >= region + bytes - 1 ?
		       PLACEMENT_HUGE :
		       PLACEMENT_ANONYMOUS;
}

void numa_walked(ULong address)
{
	const struct touched *touched = &tlbsim_touched;
	ULong pages = touched->anonymous_pages + touched->other_pages;

	if (!seen)
		return;
	if (pages != pages_seen) {
		pages_seen = pages;
		placement_touched(&numa_placement, seen->caches->number,
				  address, kind_of(address));
	}
	if (tlbsim_numa_phase)
		placement_walk(&numa_placement, seen->caches, address,
			       tlbsim_numa_phase == NUMA_COUNT);
}

static void next_interval(void)
{
	struct numa_times *times = &numa_times;

	while (tlbsim_clock >= times->ends) {
		if (placement_next_interval(&numa_placement))
			times->interval *= 2;
		times->ends += times->interval;
	}
}

void tlbsim_numa_run(const struct run *run, const ULong *bases)
{
	const struct reference *reference = run->references;
	const struct reference *end = reference + run->count;
	Bool counting = tlbsim_numa_phase == NUMA_COUNT;

	if (!seen)
		return;
	if (tlbsim_clock >= numa_times.ends)
		next_interval();
	for (; reference < end; reference++) {
		ULong address = run_address(reference->offset,
					    reference->base, bases);

		placement_access(&numa_placement, seen->caches, address,
				 reference->size, reference->side == TLB_STORE,
				 counting);
	}
}
