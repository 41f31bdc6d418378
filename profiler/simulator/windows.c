/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "ages.h"
#include "attribution.h"
#include "cores.h"
#include "notes.h"
#include "windows.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"

struct windows windows;
ULong tlbsim_next_window = ~0ULL;

static enum { CLOSED, WARMING, MEASURING } phase;
static ULong phase_ends;		/* time */
static ULong phase_operations;		/* that it may still take */
static struct window measured;		/* the window that is open */
static struct timing *seen;		/* by the model in it; NULL: none yet */
static ticks seen_since[MOST_CORES];
/* Of each core, in the last few windows: what it took, and for how many references. */
static ticks lately[MOST_CORES];
static ULong lately_references;
/* The program's time on each core when the last window began, and when that was. */
static ticks program_time[MOST_CORES];
static ULong program_clock;
static ULong periods;			/* that have begun */
static ULong random_state;

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
	ages_start();
	program_clock = tlbsim_clock;
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

/*
 * TLB entries hold pieces of larger pages if the host's pages are smaller: the
 * machine at hand then misses as on base pages.
 */
static Bool splintered(UInt core)
{
	UInt shift, host = config_of(core, &shift)->host_shift;

	return host && host < shift;
}

void windows_missed(enum tlb_size size, uint64_t address, enum tlb_side side,
		    bool walk)
{
	if (tlbsim.attribute)
		attribution_missed(size, address, side, walk);
	if (walk && side != TLB_FETCH)
		ages_walked(size, address);
}

/* The next reference misses on this core, whose TLB entries are of this size. */
static void tell(UInt core, enum tlb_size size, uint64_t address, bool walk)
{
	struct translation *translation = &seen->cores[core].translation;
	const struct walk_ages *ages = walk ? ages_of(size, address) : NULL;

	if (ages)
		translation_walked(translation, address, ages);
	else
		translation_missed(translation, address,
				   walk ? MISS_WALK : MISS_STLB_HIT);
}

static void missed(enum tlb_size size, uint64_t address, enum tlb_side side,
		   bool walk)
{
	if (tlbsim.attribute)
		attribution_missed(size, address, side, walk);
	if (side == TLB_FETCH)
		return;
	if (walk)
		ages_walked_now(size, address);
	if (tlbsim.attribute)
		attribution_modelled(size, address, walk);
	if (!splintered(size))
		tell(size, size, address, walk);
	if (size == TLB_BASE)
		for (UInt core = 0; core < core_count(); core++)
			if (splintered(core))
				tell(core, TLB_BASE, address, walk);
}

static void view_missed(uint32_t view, uint64_t address, enum tlb_side side,
			bool walk)
{
	const UInt core = TLB_SIZES + view;
	UInt shift;

	if (side == TLB_FETCH || splintered(core))
		return;
	config_of(core, &shift);
	tell(core,
	     shift < tlbsim.config.page_shift[TLB_HUGE] ? TLB_BASE : TLB_HUGE,
	     address, walk);
}

static ULong touched_bytes(void)
{
	const struct touched *touched = &tlbsim.touched;

	return (touched->anonymous_pages + touched->other_pages)
	       << touched->base_shift;
}

/* As a part of what the program has touched so far, out of 2^32. */
static ULong share_of_touched(ULong bytes)
{
	ULong all = touched_bytes();

	return all <= bytes ? 1ULL << 32 : (bytes << 32) / all;
}

/* The thread that runs now is the one that the model sees. */
static void attach(void)
{
	const ULong since = tlbsim_clock - program_clock;

	if (!*tlbsim.timing)
		*tlbsim.timing = timing_make();
	seen = *tlbsim.timing;
	program_clock = tlbsim_clock;
	for (UInt i = 0; i < core_count(); i++) {
		struct core *core = &seen->cores[i];
		const struct timing_config *config = core->config;

		/* Before the first window: a cycle for each reference. */
		ticks pace = lately_references ? lately[i] / lately_references :
						 TICKS_PER_CYCLE;

		program_time[i] += since * pace;
		memory_share(&core->memory, config->l3_bytes, touched_bytes());
		memory_begin(&core->memory, core->retired, program_time[i],
			     touched_bytes(), pace);
		core->translation.scattered_share = share_of_touched(
			(ULong)config->scattered << tlbsim.touched.base_shift);
		seen_since[i] = core->retired;
	}
	tlb_model_hold(tlbsim.model, true);
	tlbsim.model->missed = missed;
	if (tlbsim.model->views)
		tlbsim.model->views->missed = view_missed;
}

/* Add what it took since it was attached, or measured, to the window. */
static void take_time(void)
{
	for (UInt core = 0; core < core_count(); core++) {
		ticks retired = seen->cores[core].retired;

		measured.time[core] += retired - seen_since[core];
		seen_since[core] = retired;
	}
}

/* Another thread may run next: the window goes on with that. */
void windows_switch(void)
{
	if (!seen)
		return;
	take_time();
	seen = NULL;
	tlbsim.model->missed = windows_missed;
	if (tlbsim.model->views)
		tlbsim.model->views->missed = NULL;
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
	/* Programs change their pace: what was long ago counts for less. */
	lately_references -= lately_references / 4;
	lately_references += measured.references;
	for (UInt core = 0; core < core_count(); core++)
		lately[core] += measured.time[core] - lately[core] / 4;
	windows.rows[windows.count++] = measured;
	/* All may be of even periods, or all of odd ones. */
	while (windows.count == tlbsim.windows.most)
		thin_out();
	phase = CLOSED;
	choose_next();
}

/* Addresses of the block's references, by their numbers. */
static const uint64_t *addresses_of(const struct noted_block *block,
				    const struct notes *notes)
{
	static uint64_t addresses[PROGRAM_REFERENCES];
	const struct noted_reference *reference = block->references;

	for (UInt i = 0; i < block->count; i++, reference++)
		addresses[i] = (ULong)reference->offset +
			       (reference->base == NOTE_ABSOLUTE ?
					0 :
					notes->values[reference->base]);
	return addresses;
}

/* Execute a block on all cores. */
static void model(const struct noted_departure *left, const struct notes *notes,
		  ULong target)
{
	const struct program *program = left->block->program;
	const uint64_t *addresses = addresses_of(left->block, notes);
	struct departure departure = left->departure;
	struct outcomes outcomes;

	departure.target = target;
	program_predict(program, &departure, &seen->branches, &outcomes);
	paths_follow(&seen->paths, program, &departure, &outcomes);
	program_run(program, &departure, &outcomes, addresses, seen->cores,
		    core_count());
}

void tlbsim_window_block(void *guest_state, ULong start)
{
	struct notes *notes = notes_of(guest_state);
	const struct noted_departure *left = notes->left;

	if (phase == CLOSED) {
		phase = WARMING;
		start_phase(tlbsim.windows.warm);
	}
	if (!left)
		return;
	notes->left = NULL;
	if (!seen)
		attach();
	model(left, notes, start);
	if (tlbsim_clock < phase_ends &&
	    phase_operations > left->departure.operations) {
		phase_operations -= left->departure.operations;
		return;
	}
	if (phase == WARMING)
		start_measuring();
	else
		end_window();
}
