/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "windows.h"
#include "attribution.h"
#include "current.h"
#include "notes.h"
#include "reuse_samples.h"
#include "walk_ages.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"

struct windows windows;
ULong tlbsim_next_window = ~0ULL;

/*
 * Code with few memory references would keep a window open for long, at a high cost: this many
 * operations for each reference are enough.
 */
#define MOST_OPERATIONS 64u

static void start_phase(ULong references)
{
	windows.phase_ends = tlbsim_clock + references;
	windows.phase_operations = MOST_OPERATIONS * references;
}

static void choose_next(void)
{
	tlbsim_next_window = schedule_next(&windows.schedule, tlbsim_clock);
}

/* There are too many: drop every other one. */
static void thin_out(void)
{
	const ULong stays = schedule_double(&windows.schedule);
	UInt kept = 0;

	for (UInt i = 0; i < windows.count; i++)
		if (windows.rows[i].period % 2 == stays) {
			windows.rows[kept] = windows.rows[i];
			windows.rows[kept++].period /= 2;
		}
	windows.count = kept;
}

void windows_start(void)
{
	const struct windows_config *config = &options.windows;

	if (!config->period)
		return;
	walk_ages_start();
	reuse_samples_start();
	windows.program_clock = tlbsim_clock;
	windows.phase = WINDOW_CLOSED;
	windows.seen = NULL;
	if (!windows.rows)
		windows.rows = VG_(calloc)("tlbsim.windows", config->most,
					   sizeof(*windows.rows));
	windows.count = 0;
	schedule_start(&windows.schedule, tlbsim_clock, config->period,
		       config->warm + config->measured);
	choose_next();
}

/*
 * TLB entries hold pieces of larger pages if the host's pages are smaller: the machine at hand
 * then misses like on base pages.
 */
static Bool splintered(UInt core)
{
	UInt shift, host = config_of(core, &shift)->host_shift;

	return host && host < shift;
}

void windows_missed(enum tlb_size size, uint64_t address, enum tlb_side side,
		    bool walk)
{
	if (options.attribute)
		attribution_missed(size, address, side, walk);
	if (!walk || side == TLB_FETCH)
		return;
	walk_ages_walked(size, address);
	if (size == TLB_BASE)
		reuse_samples_walked(address, current.model->when);
}

/* The next reference misses on this core, whose TLB entries are of this size. */
static void note_miss(UInt core, enum tlb_size size, uint64_t address, enum tlb_side side,
		      bool walk)
{
	struct translation *translation = &windows.seen->cores[core].translation;
	struct walk_ages ages;

	if (walk && walk_ages_of(size, address, side, translation->config, &ages))
		translation_walked(translation, address, &ages);
	else
		translation_missed(translation, address,
				   walk ? MISS_WALK : MISS_STLB_HIT);
}

static void missed(enum tlb_size size, uint64_t address, enum tlb_side side,
		   bool walk)
{
	if (options.attribute)
		attribution_missed(size, address, side, walk);
	if (side == TLB_FETCH)
		return;
	if (walk)
		walk_ages_walked_now(size, address);
	if (walk && size == TLB_BASE)
		reuse_samples_walked(address, current.model->when);
	if (options.attribute)
		attribution_modelled(size, address, walk);
	if (!splintered(size))
		note_miss(size, size, address, side, walk);
	if (size == TLB_BASE)
		for (UInt core = 0; core < core_count(); core++)
			if (splintered(core))
				note_miss(core, TLB_BASE, address, side, walk);
}

static void view_missed(uint32_t view, uint64_t address, enum tlb_side side,
			bool walk)
{
	const UInt core = TLB_SIZES + view;
	UInt shift;

	if (side == TLB_FETCH || splintered(core))
		return;
	config_of(core, &shift);
	note_miss(core,
		  shift < options.tlb.page_shift[TLB_HUGE] ? TLB_BASE : TLB_HUGE,
		  address, side, walk);
}

static ULong touched_pages(void)
{
	return tlbsim_touched.anonymous_pages + tlbsim_touched.other_pages;
}

static ULong touched_bytes(void)
{
	return touched_pages() << tlbsim_touched.base_shift;
}

/* As a part of what the program has touched so far, out of 2^32. */
static ULong share_of_touched(ULong bytes)
{
	ULong all = touched_bytes();

	return all <= bytes ? 1ULL << 32 : (bytes << 32) / all;
}

/* The model sees the thread that runs now. */
static void attach(void)
{
	const ULong since = tlbsim_clock - windows.program_clock;
	const ULong references = windows.recent_references;
	const struct reuse *reuse = reuse_samples_now(tlbsim_clock, touched_pages());

	if (!*current.timing)
		*current.timing = timing_make();
	windows.seen = *current.timing;
	windows.program_clock = tlbsim_clock;
	for (UInt i = 0; i < core_count(); i++) {
		struct core *core = &windows.seen->cores[i];
		struct last_level *l3 = &core->memory.l3;
		/* Before the first window: a cycle for each reference. */
		const ticks pace = references ? windows.recent[i] / references :
						TICKS_PER_CYCLE;

		windows.program_time[i] += since * pace;
		l3->reuse = reuse;
		l3->base_tables = !core->translation.huge;
		last_level_share(l3, core->config->l3_bytes, touched_bytes());
		last_level_begin(l3, core->retired, windows.program_time[i],
				 touched_bytes(), pace);
		core->translation.isolated_share = share_of_touched(
			(ULong)core->config->isolated_pages
			<< tlbsim_touched.base_shift);
		windows.seen_since[i] = core->retired;
	}
	tlb_model_hold(current.model, true);
	current.model->missed = missed;
	if (current.model->views)
		current.model->views->missed = view_missed;
}

/* Add its time since it was attached, or measured, to the window. */
static void take_time(void)
{
	for (UInt core = 0; core < core_count(); core++) {
		ticks retired = windows.seen->cores[core].retired;

		windows.open.time[core] += retired - windows.seen_since[core];
		windows.seen_since[core] = retired;
	}
}

/* Another thread may run next: the window continues with it. */
void windows_switch(void)
{
	if (!windows.seen)
		return;
	take_time();
	windows.seen = NULL;
	current.model->missed = windows_missed;
	if (current.model->views)
		current.model->views->missed = NULL;
	tlb_model_hold(current.model, false);
}

static void start_measuring(void)
{
	take_time();
	windows.open = (struct window){
		.thread = current.thread,
		.period = schedule_number(&windows.schedule),
		.start = tlbsim_clock,
	};
	windows.phase = WINDOW_MEASURING;
	start_phase(options.windows.measured);
}

static void end_window(void)
{
	windows.open.references = tlbsim_clock - windows.open.start;
	windows_switch();
	/* Programs change their speed: old windows count less. */
	windows.recent_references -= windows.recent_references / 4;
	windows.recent_references += windows.open.references;
	for (UInt core = 0; core < core_count(); core++)
		windows.recent[core] += windows.open.time[core] - windows.recent[core] / 4;
	windows.rows[windows.count++] = windows.open;
	/* All may be in even periods, or all in odd ones. */
	while (windows.count == options.windows.most)
		thin_out();
	windows.phase = WINDOW_CLOSED;
	choose_next();
}

/* Addresses of the block's references, by their numbers. */
static const uint64_t *addresses_of(const struct noted_block *block,
				    const ULong *values)
{
	static uint64_t addresses[BLOCK_REFERENCES];
	const struct noted_reference *reference = block->references;

	for (UInt i = 0; i < block->count; i++, reference++)
		addresses[i] = (ULong)reference->offset +
			       (reference->base == NOTE_ABSOLUTE ?
					0 :
					values[reference->base]);
	return addresses;
}

/* Execute a block on all cores. */
static void model(const struct noted_departure *left, const ULong *values, ULong target)
{
	const struct block *block = left->notes->block;
	const uint64_t *addresses = addresses_of(left->notes, values);
	struct departure departure = left->departure;
	struct outcomes outcomes;

	departure.target = target;
	block_predict(block, &departure, &windows.seen->branches, &outcomes);
	wrong_paths_follow(&windows.seen->paths, block, &departure, &outcomes);
	block_run(block, &departure, &outcomes, addresses, windows.seen->cores,
		    core_count());
}

void tlbsim_window_block(void *guest_state, ULong start)
{
	const ULong *values;
	const struct noted_departure *left = notes_take(guest_state, &values);

	if (windows.phase == WINDOW_CLOSED) {
		windows.phase = WINDOW_WARMING;
		start_phase(options.windows.warm);
	}
	if (!left)
		return;
	if (!windows.seen)
		attach();
	model(left, values, start);
	if (tlbsim_clock < windows.phase_ends &&
	    windows.phase_operations > left->departure.operations) {
		windows.phase_operations -= left->departure.operations;
		return;
	}
	if (windows.phase == WINDOW_WARMING)
		start_measuring();
	else
		end_window();
}
