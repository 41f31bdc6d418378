/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How long does one thread's code take on an out-of-order core?
 *
 * Instructions enter the reorder buffer in order, a few per cycle, and retire in order; between,
 * each starts when its operands are ready.  A load waits for its address, its translation and its
 * line.  A store retires without its line, but waits for its translation; the store buffer empties
 * in order. After a mispredicted branch nothing enters until it is resolved.  Ports, the front end
 * and SMT are not modelled.
 *
 * After Genbrugge, Eyerman and Eeckhout, "Interval simulation" (HPCA 2010), with the times of
 * values in place of intervals between misses.
 */
#ifndef TLBCOST_TIMING_CORE_H
#define TLBCOST_TIMING_CORE_H

#include "translation.h"

#define CORE_FORWARDS 4096u
#define CORE_REGISTERS 512u	/* eight bytes of guest state each */
#define CORE_MOST_REORDER_BUFFER 1024u
#define CORE_MOST_STORE_BUFFER 256u

/* What a recent store wrote: eight bytes, and when they were known. */
struct forward {
	uint64_t word;		/* address / 8 */
	uint64_t store;		/* number of the store */
	ticks ready;
};

/* A wrong path that the core executes until a branch is resolved. */
struct speculative_path {
	ticks front;		/* when its next instruction enters the reorder buffer */
	ticks resolved;
};

#define CORE_SPECULATIVE_PATHS 4u

struct core {
	const struct timing_config *config;
	struct memory memory;
	struct translation translation;
	ticks front;		/* when the next instruction enters the reorder buffer */
	ticks retired;		/* when the last one left it */
	ticks done;		/* when the current one is done */
	ticks committed;	/* when the last store reached its line */
	ticks fence;		/* loads start after this */
	bool diverged;		/* the wrong path has not yet converged with the right one */
	uint32_t speculative_count;
	struct speculative_path speculative[CORE_SPECULATIVE_PATHS];	/* oldest first */
	ticks slot;		/* from an instruction to the next */
	uint64_t stores;
	uint32_t reorder_place, store_place;	/* of the next one in these: */
	/*
	 * Called with the ticks in which nothing retired because of an address's translation;
	 * may be NULL.
	 */
	void (*waited)(bool huge, uint64_t address, ticks time);
	ticks translated;	/* time that it cost the current instruction */
	uint64_t translating;
	ticks reorder_buffer[CORE_MOST_REORDER_BUFFER];
	ticks store_buffer[CORE_MOST_STORE_BUFFER];
	ticks registers[CORE_REGISTERS];
	struct forward forwards[CORE_FORWARDS];
};

/* `lines`: memory_lines() of them; `l3`: the cache that cores share. */
void core_init(struct core *core, const struct timing_config *config,
	       struct cache_line *lines, struct cache *l3, uint32_t base_shift,
	       uint32_t huge_shift, bool huge);

static inline ticks later(ticks a, ticks b)
{
	return a > b ? a : b;
}

/* Rarely needed parts of core_instruction(): requests never start before `now`. */
void core_advance(struct core *core, ticks now);
/*
 * The instruction enters on wrong paths too; `room`: when the reorder buffer has a free entry.
 */
void core_advance_speculative(struct core *core, ticks room);
/*
 * Nothing retired for this long: charge it to the translation, at most the translation's time.
 */
void core_charge(struct core *core, ticks stalled);

/* The next instruction enters the reorder buffer; the one before is complete. */
static inline void core_instruction(struct core *core)
{
	const ticks slot = core->slot;
	ticks place, now;

	if (core->translated && core->done > core->retired + slot)
		core_charge(core, core->done - core->retired - slot);
	core->translated = 0;

	core->retired = later(core->retired + slot, core->done);
	core->reorder_buffer[core->reorder_place] = core->retired;
	if (++core->reorder_place == core->config->reorder_buffer)
		core->reorder_place = 0;
	place = core->reorder_buffer[core->reorder_place];
	if (core->speculative_count)
		core_advance_speculative(core, place);
	core->front = later(core->front + slot, place);
	core->done = core->front + TICKS_PER_CYCLE;
	/* The oldest wrong path gets here first; calendars advance together. */
	now = core->speculative_count ? core->speculative[0].front : core->front;
	if (now >> CALENDAR_SLOT_SHIFT > core->memory.buffers.first)
		core_advance(core, now);
}

/* When a load's data arrive; its address is known at `address_ready`. */
ticks core_load(struct core *core, uint64_t address, ticks address_ready);

void core_store(struct core *core, uint64_t address, ticks address_ready,
		ticks data_ready);

/* The instruction has a result at this time. */
static inline void core_done(struct core *core, ticks time)
{
	if (time > core->done)
		core->done = time;
}

/* Loads and stores before and after keep their order: returns when they may continue. */
ticks core_fence(struct core *core);

/*
 * A branch whose condition is known at `ready`.  If it was mispredicted, what
 * follows waits for that; the wrong path, which enters now, has diverged until
 * core_converged().
 */
void core_branch(struct core *core, ticks ready, bool predicted);

/* What follows is on the wrong path too: its loads start there as soon as they can. */
void core_converged(struct core *core);

/* The direction of wrong paths is unknown: abandon them. */
void core_lost(struct core *core);

#endif
