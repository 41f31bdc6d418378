/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A made-up core with round numbers, for tests of the timing model. */
#ifndef TLBCOST_TESTS_TIMING_H
#define TLBCOST_TESTS_TIMING_H

#include "check.h"
#include "timing/core.h"

#include <stdlib.h>

#define CYCLES(n) ((ticks)(n) * TICKS_PER_CYCLE)
#define SLOT ((ticks)1 << CALENDAR_SLOT_SHIFT)
#define BASE_SHIFT 12u
#define HUGE_SHIFT 21u
#define BASE_PAGE ((uint64_t)1 << BASE_SHIFT)
#define HUGE_PAGE ((uint64_t)1 << HUGE_SHIFT)
/* Lines of a base page. */
#define PAGE_LINES 64u

/* No last level, channels without limit, walks that take but their reads. */
static inline struct timing_config plain_config(void)
{
	return (struct timing_config){
		.width = 4, .reorder_buffer = 128, .store_buffer = 16, .mispredict = 20,
		.l1 = { 32 << 10, 8, 4 }, .l2 = { 256 << 10, 8, 14 },
		.fill_buffers = 16, .l3_cycles = 50, .memory_cycles = 200,
		.l3_interval = 1, .memory_interval = 1, .walkers = 2,
		.directories = 8,
	};
}

/* A core, and a last level for it if the configuration has one. */
struct rig {
	struct timing_config config;
	struct cache l3;
	struct cache_line *lines, *l3_lines;
	struct core core;
	ticks now;		/* of quiet() */
};

static inline struct rig *make_rig(const struct timing_config *config, bool huge)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	uint32_t ways, bytes = cache_size_within(config->l3_bytes, &ways);

	rig->config = *config;
	rig->lines = malloc(memory_lines(config) * sizeof(*rig->lines));
	rig->l3_lines = malloc((cache_lines(bytes) + 1) * sizeof(*rig->l3_lines));
	cache_init(&rig->l3, bytes, ways, rig->l3_lines);
	core_init(&rig->core, &rig->config, rig->lines, &rig->l3, BASE_SHIFT,
		  HUGE_SHIFT, huge);
	return rig;
}

static inline void drop_rig(struct rig *rig)
{
	free(rig->lines);
	free(rig->l3_lines);
	free(rig);
}

/* When all that entered has left. */
static inline ticks all_left(struct rig *rig)
{
	core_instruction(&rig->core);
	return rig->core.retired;
}

/* Everything before has long ended; the time. */
static inline ticks quiet(struct rig *rig)
{
	rig->now += CYCLES(100000);
	calendar_advance(&rig->core.memory.buffers, rig->now);
	calendar_advance(&rig->core.memory.l3_channel, rig->now);
	calendar_advance(&rig->core.memory.memory_channel, rig->now);
	calendar_advance(&rig->core.translation.walkers, rig->now);
	return rig->now;
}

/* How long does a walk take by itself? */
static inline ticks walk(struct rig *rig, uint64_t address)
{
	ticks start = quiet(rig);

	translation_missed(&rig->core.translation, address, MISS_WALK);
	return translate(&rig->core.translation, address, start) - start;
}

/* An instruction that loads; when its data are there. */
static inline ticks load(struct rig *rig, uint64_t address, ticks address_ready)
{
	core_instruction(&rig->core);
	return core_load(&rig->core, address, address_ready);
}

/* Is it as expected, or so much more at most? */
static inline bool about(ticks time, ticks expected, ticks more)
{
	if (time >= expected && time <= expected + more)
		return true;
	printf("# %llu is not %llu to %llu\n", (unsigned long long)time,
	       (unsigned long long)expected,
	       (unsigned long long)(expected + more));
	return false;
}

/* Marsaglia's xorshift64: the same numbers in every run. */
static inline uint64_t random_number(void)
{
	static uint64_t state = 88172645463325252u;

	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

#endif
