/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "placing.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"

/*
 * References of all threads in the first intervals; they double in a long run.
 * Valgrind runs one thread for 100,000 blocks before the next has its turn: an
 * interval must have turns of all.
 */
#define FIRST_INTERVAL (1ULL << 22)
/* 200 MB of counts, 64 MB of touches: beyond that there is no table. */
#define MOST_COUNTS ((SizeT)4 << 20)
#define MOST_TOUCHES ((SizeT)4 << 20)

ULong tlbsim_placing;
ULong tlbsim_next_turn = ~0ULL;

struct placement tlbsim_placement;
struct placing_times tlbsim_placing_times;

static struct placing_thread *current;	/* that runs now; NULL: none */
static ULong pages_seen;		/* touched before the last walk */

static void *allocate(size_t bytes)
{
	return VG_(calloc)("tlbsim.placement", 1, bytes);
}

void placing_start(void)
{
	const struct placing_config *config = &tlbsim.placing;
	struct placement *placement = &tlbsim_placement;

	if (!config->period)
		return;
	placement->allocate = allocate;
	placement->release = VG_(free);
	placement->config = config->caches;
	placement->config.base_shift = tlbsim.config.page_shift[TLB_BASE];
	placement->config.most_counts = MOST_COUNTS;
	placement->config.most_touches = MOST_TOUCHES;
	placement_reset(placement);
	tlbsim_placing_times.origin = tlbsim_clock;
	tlbsim_placing_times.interval = config->period > FIRST_INTERVAL ?
						config->period :
						FIRST_INTERVAL;
	tlbsim_placing_times.ends =
		tlbsim_clock + tlbsim_placing_times.interval;
	pages_seen = 0;
}

/* How long a phase of a thread is, in its own references. */
static ULong phase_length(UInt phase)
{
	const struct placing_config *config = &tlbsim.placing;

	switch (phase) {
	case PLACING_WARM: return config->warm;
	case PLACING_COUNT: return config->measured;
	default: return config->period - config->warm - config->measured;
	}
}

static void next_phase(struct placing_thread *thread)
{
	static const UInt after[] = {
		[PLACING_SKIP] = PLACING_WARM,
		[PLACING_WARM] = PLACING_COUNT,
		[PLACING_COUNT] = PLACING_SKIP,
	};

	do {
		thread->phase = after[thread->phase];
		thread->left = phase_length(thread->phase);
	} while (!thread->left);
}

void placing_thread_start(struct placing_thread *thread, UInt number)
{
	thread->caches = NULL;
	if (!tlbsim.placing.period)
		return;
	/* Numbers that do not fit in a key would be another thread's. */
	if (number > 0xffff)
		tlbsim_placement.failed = True;
	thread->caches = placement_thread_new(&tlbsim_placement, number & 0xffff);
	thread->phase = PLACING_SKIP;
	next_phase(thread);
}

static void attach(void)
{
	/* Where every reference is counted, there is nothing to turn to. */
	const Bool all = tlbsim.placing.measured == tlbsim.placing.period;

	tlbsim_placing = current->phase;
	tlbsim_next_turn = all ? ~0ULL : tlbsim_clock + current->left;
}

static void detach(void)
{
	current = NULL;
	tlbsim_placing = PLACING_SKIP;
	tlbsim_next_turn = ~0ULL;
}

void placing_switch(struct placing_thread *next)
{
	if (!tlbsim.placing.period)
		return;
	if (current) {
		/* First touches are in the order of threads' turns. */
		tlb_model_flush(tlbsim.model);
		current->left = 1;
		if (tlbsim_next_turn > tlbsim_clock)
			current->left = tlbsim_next_turn - tlbsim_clock;
	}
	/* Without memory for its caches a thread is not looked at. */
	if (!next->caches) {
		detach();
		tlbsim_placement.failed = True;
		return;
	}
	current = next;
	attach();
}

void placing_drop(struct placing_thread *thread)
{
	if (!thread->caches)
		return;
	placement_thread_free(&tlbsim_placement, thread->caches);
	thread->caches = NULL;
	if (current == thread)
		detach();
}

void tlbsim_turn(void)
{
	if (!current)
		return;
	next_phase(current);
	attach();
}

/* Could a huge page hold this address now, and is it anonymous at all? */
static enum placement_kind kind_of(ULong address)
{
	const NSegment *segment = VG_(am_find_nsegment)((Addr)address);
	ULong bytes = 1ULL << tlbsim.config.page_shift[TLB_HUGE];
	ULong region = address & ~(bytes - 1);

	if (!segment || segment->kind != SkAnonC)
		return PLACEMENT_OTHER;
	return segment->start <= region && segment->end >= region + bytes - 1 ?
		       PLACEMENT_HUGE :
		       PLACEMENT_ANONYMOUS;
}

void placing_walked(ULong address)
{
	const struct touched *touched = &tlbsim.touched;
	ULong pages = touched->anonymous_pages + touched->other_pages;

	if (!current)
		return;
	if (pages != pages_seen) {
		pages_seen = pages;
		placement_touched(&tlbsim_placement, current->caches->number,
				  address, kind_of(address));
	}
	if (tlbsim_placing)
		placement_walk(&tlbsim_placement, current->caches, address,
			       tlbsim_placing == PLACING_COUNT);
}

static void next_interval(void)
{
	struct placing_times *times = &tlbsim_placing_times;

	while (tlbsim_clock >= times->ends) {
		if (placement_next_interval(&tlbsim_placement))
			times->interval *= 2;
		times->ends += times->interval;
	}
}

void tlbsim_place(const struct run *run, const ULong *bases)
{
	const struct reference *reference = run->references;
	const struct reference *end = reference + run->count;
	Bool counting = tlbsim_placing == PLACING_COUNT;

	if (!current)
		return;
	if (tlbsim_clock >= tlbsim_placing_times.ends)
		next_interval();
	for (; reference < end; reference++) {
		ULong address = (ULong)reference->offset;

		if (reference->base != REFERENCE_ABSOLUTE)
			address += bases[reference->base];
		placement_access(&tlbsim_placement, current->caches, address,
				 reference->size, reference->side == TLB_STORE,
				 counting);
	}
}
