/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "windows.h"

#include "attribution.h"
#include "cores.h"
#include "current.h"
#include "notes.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"
#include "reuse_samples.h"
#include "timing/translation.h"
#include "tlb/model.h"

/* To base pages, and to huge pages: by walks of base pages, and by their own. */
enum { BASE_PAGES, HUGE_BY_BASE, HUGE_PAGES, RECENCIES };

static struct recency *recencies[RECENCIES];	/* NULL: not needed */

/*
 * Walks that are not noted yet.  The record of a walk is in no near cache; processing many
 * together overlaps these misses and keeps them off other work.
 */
#define MOST_WAITING 128u

static struct waiting {
	UInt count;
	struct { uint64_t address, when; } walks[MOST_WAITING];
} waiting[TLB_SIZES];

/* The last walk of a window, for each size. */
static struct {
	uint64_t page, when;
	struct walk_ages ages;
} last[TLB_SIZES];

static struct recency *make_recency(void)
{
	const Addr line = 1u << LINE_SHIFT;
	Addr start = (Addr)VG_(malloc)("tlbsim.ages",
				       sizeof(struct recency) + line - 1);

	return (struct recency *)((start + line - 1) & ~(line - 1));
}

/*
 * Start with no walks; does nothing without windows.  Walks are noted throughout the run, so that a
 * window knows the age of the page-table entries that its walks read.
 */
static void walk_ages_start(void)
{
	for (UInt i = 0; options.windows.period && i < RECENCIES; i++) {
		if (!recencies[i])
			recencies[i] = make_recency();
		VG_(memset)(recencies[i], 0, sizeof(struct recency));
	}
	VG_(memset)(last, 0, sizeof(last));
	waiting[TLB_BASE].count = waiting[TLB_HUGE].count = 0;
}

static uint64_t page_of(enum tlb_size size, uint64_t address)
{
	return address >> options.tlb.page_shift[size];
}

static void note(UInt which, enum tlb_size size, const struct waiting *noted)
{
	for (UInt i = 0; i < noted->count; i++)
		recency_walk(recencies[which],
			     page_of(size, noted->walks[i].address),
			     noted->walks[i].when);
}

static void note_waiting(enum tlb_size size)
{
	if (size == TLB_BASE) {
		note(BASE_PAGES, TLB_BASE, &waiting[TLB_BASE]);
		note(HUGE_BY_BASE, TLB_HUGE, &waiting[TLB_BASE]);
	} else {
		note(HUGE_PAGES, TLB_HUGE, &waiting[TLB_HUGE]);
	}
	waiting[size].count = 0;
}

/* A machine walks to the address's page, of this size, now. */
static void walk_ages_walked(enum tlb_size size, uint64_t address)
{
	struct waiting *walks = &waiting[size];

	if (!recencies[0])
		return;
	if (walks->count == MOST_WAITING)
		note_waiting(size);
	walks->walks[walks->count].address = address;
	walks->walks[walks->count++].when = current.model->when;
}

static struct recency_ages age_in(UInt which, uint64_t page)
{
	struct recency_ages ages = recency_look(recencies[which], page, current.model->when);

	if (recency_lost(recencies[which], page))
		return (struct recency_ages){ AGE_UNKNOWN, AGE_UNKNOWN };
	ages.page = ages.page ? ages.page : NEVER_ACCESSED;
	ages.line = ages.line ? ages.line : NEVER_ACCESSED;
	return ages;
}

/* The ages until now, from the walks noted. */
static struct walk_ages ages_at(enum tlb_size size, uint64_t address)
{
	const uint64_t huge = page_of(TLB_HUGE, address);
	struct recency_ages own;

	if (size == TLB_BASE)
		return (struct walk_ages){
			.base = age_in(BASE_PAGES, page_of(TLB_BASE, address)),
			.huge = age_in(HUGE_BY_BASE, huge),
		};
	own = age_in(HUGE_PAGES, huge);
	return (struct walk_ages){ .base = own, .huge = own };
}

/* The same in a window, where walk_ages_of() this walk are needed. */
static void walk_ages_walked_now(enum tlb_size size, uint64_t address)
{
	if (!recencies[0])
		return;
	note_waiting(size);
	last[size].page = page_of(size, address);
	last[size].when = current.model->when;
	last[size].ages = ages_at(size, address);
	walk_ages_walked(size, address);
}

/* Treat ages of this kind as recent. */
static void forget(struct recency_ages *ages, uint64_t kind)
{
	ages->page = ages->page == kind ? 0 : ages->page;
	ages->line = ages->line == kind ? 0 : ages->line;
}

/*
 * The ages of the entries that the current walk reads, on a machine whose TLB entries are of this
 * size, as its core can use them: AGE_UNKNOWN and NEVER_ACCESSED only where no half-life is
 * calibrated.  false: no window was asked for.
 */
static bool walk_ages_of(enum tlb_size size, uint64_t address, enum tlb_side side,
		  const struct timing_config *config, struct walk_ages *ages)
{
	const bool calibrated = config->l3_half_life_cycles[0] != 0;

	if (!recencies[0])
		return false;
	/* The machine at hand may have walked just before. */
	if (last[size].page == page_of(size, address) &&
	    last[size].when == current.model->when) {
		*ages = last[size].ages;
	} else {
		note_waiting(size);
		*ages = ages_at(size, address);
	}
	if (calibrated) {
		forget(&ages->base, AGE_UNKNOWN);
		forget(&ages->huge, AGE_UNKNOWN);
	}
	/* A store to a new page faults: the kernel has just written the entry. */
	if (calibrated || side == TLB_STORE) {
		forget(&ages->base, NEVER_ACCESSED);
		forget(&ages->huge, NEVER_ACCESSED);
	}
	return true;
}

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
