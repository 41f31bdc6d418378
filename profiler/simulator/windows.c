/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "windows.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"

struct windows windows;
uint64_t tlbsim_addresses[PROGRAM_REFERENCES];
ULong tlbsim_next_window = ~0ULL;

static enum { CLOSED, WARMING, MEASURING } phase;
static ULong phase_ends;		/* time */
static ULong phase_operations;		/* that it may still take */
static struct window measured;		/* the window that is open */
static struct timing *seen;		/* by the model in it; NULL: none yet */
static ticks seen_since[TLB_SIZES];
static ULong periods;			/* that have begun */
static ULong random_state;
static struct cache last_level[TLB_SIZES];	/* all threads' */

/*
 * Code that hardly refers to memory would keep a window open for long, and pay
 * for it: so many operations for each reference are enough.
 */
#define MOST_OPERATIONS 64u

static void start_phase(ULong references)
{
	phase_ends = tlbsim_clock + references;
	phase_operations = MOST_OPERATIONS * references;
}

static ULong random_below(ULong limit)
{
	/* Marsaglia's xorshift64. */
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state % limit;
}

/* One window in each period, anywhere in it: no rhythm of the program's fits. */
static void choose_next(void)
{
	const struct windows_config *config = &tlbsim.windows;
	ULong room = windows.period - config->warm - config->measured + 1;

	do
		tlbsim_next_window = windows.origin + periods++ * windows.period +
				     random_below(room);
	while (tlbsim_next_window < tlbsim_clock);
}

/*
 * How long the run will be is not known.  So windows are dense at first;
 * whenever there are too many, the period doubles, and one of each two goes.
 */
static void thin_out(void)
{
	ULong odd = random_below(2);
	UInt kept = 0;

	for (UInt i = 0; i < windows.count; i++)
		if (windows.rows[i].period % 2 == odd) {
			windows.rows[kept] = windows.rows[i];
			windows.rows[kept++].period /= 2;
		}
	windows.count = kept;
	windows.period *= 2;
	periods = (periods + 1) / 2;
}

void windows_start(void)
{
	if (!tlbsim.windows.period)
		return;
	phase = CLOSED;
	seen = NULL;
	if (!windows.rows)
		windows.rows = VG_(calloc)("tlbsim.windows", tlbsim.windows.most,
					   sizeof(*windows.rows));
	windows.origin = tlbsim_clock;
	windows.period = tlbsim.windows.period;
	windows.count = 0;
	periods = 0;
	random_state = 88172645463325252ULL;
	choose_next();
}

/* TLB entries hold pieces of huge pages if the host's pages are smaller. */
static Bool splintered(void)
{
	UInt host = tlbsim.windows.core.host_shift;

	return host && host < tlbsim.config.page_shift[TLB_HUGE];
}

static void missed(enum tlb_size size, uint64_t address, enum tlb_side side,
		   bool walk)
{
	enum miss miss = walk ? MISS_WALK : MISS_STLB_HIT;

	if (side == TLB_FETCH)
		return;
	if (!splintered()) {
		translation_missed(&seen->cores[size].translation, address,
				   miss);
	} else if (size == TLB_BASE) {
		for (Int i = 0; i < TLB_SIZES; i++)
			translation_missed(&seen->cores[i].translation,
					   address, miss);
	}
}

static void make_last_level(void)
{
	UInt ways, bytes;

	bytes = cache_size_within(tlbsim.windows.core.l3_bytes, &ways);
	for (Int size = 0; size < TLB_SIZES; size++)
		cache_init(&last_level[size], bytes, ways,
			   VG_(malloc)("tlbsim.lines",
				       cache_lines(bytes) *
					       sizeof(struct cache_line)));
}

static struct timing *make_timing(void)
{
	const struct timing_config *config = &tlbsim.windows.core;
	struct timing *timing = VG_(malloc)("tlbsim.timing", sizeof(*timing));
	SizeT lines = memory_lines(config);

	if (!last_level[0].lines)
		make_last_level();
	timing->lines = VG_(malloc)("tlbsim.lines",
				    TLB_SIZES * lines * sizeof(*timing->lines));
	for (Int size = 0; size < TLB_SIZES; size++)
		core_init(&timing->cores[size], config,
			  timing->lines + (SizeT)size * lines, &last_level[size],
			  tlbsim.config.page_shift[TLB_BASE],
			  tlbsim.config.page_shift[TLB_HUGE], size == TLB_HUGE);
	branches_init(&timing->branches);
	return timing;
}

void windows_drop(struct timing *timing)
{
	if (!timing)
		return;
	VG_(free)(timing->lines);
	VG_(free)(timing);
}

/* As a part of what the program has touched so far, out of 2^32. */
static ULong share_of_touched(ULong bytes)
{
	const struct touched *touched = &tlbsim.touched;
	ULong all = (touched->anonymous_pages + touched->other_pages)
		    << touched->base_shift;

	return all <= bytes ? 1ULL << 32 : (bytes << 32) / all;
}

/* The thread that runs now is the one that the model sees. */
static void attach(void)
{
	const struct timing_config *config = &tlbsim.windows.core;

	if (!*tlbsim.timing)
		*tlbsim.timing = make_timing();
	seen = *tlbsim.timing;
	for (Int size = 0; size < TLB_SIZES; size++) {
		struct core *core = &seen->cores[size];

		core->memory.l3_share = share_of_touched(config->l3_bytes);
		core->translation.scattered_share = share_of_touched(
			(ULong)config->scattered << tlbsim.touched.base_shift);
		seen_since[size] = core->retired;
	}
	tlb_model_hold(tlbsim.model, true);
	tlbsim.model->missed = missed;
}

/* Add what it took since it was attached, or measured, to the window. */
static void take_time(void)
{
	for (Int size = 0; size < TLB_SIZES; size++) {
		ticks retired = seen->cores[size].retired;

		measured.time[size] += retired - seen_since[size];
		seen_since[size] = retired;
	}
}

/* Another thread may run next: the window goes on with that. */
void windows_switch(void)
{
	if (!seen)
		return;
	take_time();
	seen = NULL;
	tlbsim.model->missed = NULL;
	tlb_model_hold(tlbsim.model, false);
}

static void start_measuring(void)
{
	take_time();
	measured = (struct window){
		.thread = tlbsim.running,
		.period = periods - 1,
		.start = tlbsim_clock,
	};
	phase = MEASURING;
	start_phase(tlbsim.windows.measured);
}

static void end_window(void)
{
	measured.references = tlbsim_clock - measured.start;
	windows_switch();
	windows.rows[windows.count++] = measured;
	/* All may be of even periods, or all of odd ones. */
	while (windows.count == tlbsim.windows.most)
		thin_out();
	phase = CLOSED;
	choose_next();
}

void tlbsim_window_block(const struct program *program,
			 const struct departure *departure, ULong target)
{
	struct departure left = *departure;
	struct outcomes outcomes;

	if (phase == CLOSED) {
		phase = WARMING;
		start_phase(tlbsim.windows.warm);
	}
	if (!seen)
		attach();
	left.target = target;
	program_predict(program, &left, &seen->branches, &outcomes);
	for (Int size = 0; size < TLB_SIZES; size++)
		program_run(program, &left, &outcomes, tlbsim_addresses,
			    &seen->cores[size]);
	if (tlbsim_clock < phase_ends && phase_operations > left.operations) {
		phase_operations -= left.operations;
		return;
	}
	if (phase == WARMING)
		start_measuring();
	else
		end_window();
}
