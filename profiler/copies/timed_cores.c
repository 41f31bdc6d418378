/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "timed_cores.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "string_lines.h"

static size_t last_level_lines(const struct timing_config *config, uint32_t *bytes, uint32_t *ways)
{
	*bytes = cache_size_within(config->l3_bytes, ways);
	return cache_lines(*bytes);
}

static int make_ages(struct timed_cores *timed)
{
	const bool asked = timed->options->core.l3_half_life_cycles[0] != 0;

	for (unsigned i = 0; asked && i < AGES_KINDS; i++) {
		timed->walks[i] = aligned_alloc(64, (sizeof(struct recency) + 63) & ~(size_t)63);
		if (!timed->walks[i])
			return -1;
	}
	return 0;
}

/* All caches are empty. */
static void init_cores(struct timed_cores *timed)
{
	const struct timing_config *config = &timed->options->core;
	const uint32_t base = timed->options->tlb.page_shift[TLB_BASE];
	struct cache_line *next = timed->lines;
	uint32_t bytes, ways;

	for (uint32_t core = 0; core < TLB_SIZES; core++) {
		const uint32_t shift = timed->options->tlb.page_shift[core];
		const size_t own = last_level_lines(config, &bytes, &ways);

		cache_init(&timed->last_level[core], bytes, ways, next);
		next += own;
		core_init(&timed->cores[core], config, next, &timed->last_level[core], base, shift,
			  shift > base);
		next += memory_lines(config);
		timed->cores[core].waited = timed->waited;
	}
}

static int make_cores(struct timed_cores *timed)
{
	const struct timing_config *config = &timed->options->core;
	uint32_t bytes, ways;
	const size_t own = memory_lines(config) + last_level_lines(config, &bytes, &ways);
	const size_t lines = TLB_SIZES * own;

	for (uint32_t core = 0; core < TLB_SIZES; core++)
		timed->pace[core] = TICKS_PER_CYCLE;
	timed->cores = malloc(TLB_SIZES * sizeof(*timed->cores));
	timed->lines = malloc(lines * sizeof(*timed->lines));
	if (!timed->cores || !timed->lines)
		return -1;
	init_cores(timed);
	return 0;
}

int timed_cores_init(struct timed_cores *timed, const struct window_options *options,
		     void (*waited)(bool huge, uint64_t address, ticks time))
{
	memset(timed, 0, sizeof(*timed));
	timed->options = options;
	timed->waited = waited;
	if (make_cores(timed) < 0 || make_ages(timed) < 0) {
		timed_cores_free(timed);
		errno = ENOMEM;
		return -1;
	}
	branches_init(&timed->branches);
	wrong_paths_init(&timed->paths);
	return 0;
}

void timed_cores_free(struct timed_cores *timed)
{
	for (unsigned i = 0; i < AGES_KINDS; i++)
		free(timed->walks[i]);
	free(timed->lines);
	free(timed->cores);
	memset(timed, 0, sizeof(*timed));
}

static uint64_t share(uint64_t part, uint64_t whole)
{
	return whole <= part ? UINT64_C(1) << 32 : (part << 32) / whole;
}

void timed_cores_forget(struct timed_cores *timed)
{
	wrong_paths_init(&timed->paths);
}

void timed_cores_begin(struct timed_cores *timed, pid_t pid, uint64_t cpu_ns,
		       uint64_t touched_bytes)
{
	const struct window_options *options = timed->options;
	const uint32_t base = options->tlb.page_shift[TLB_BASE];

	/* Another one's memory has the same addresses. */
	if (timed->pid && timed->pid != pid)
		init_cores(timed);
	timed->pid = pid;
	for (unsigned i = 0; i < AGES_KINDS && timed->walks[i]; i++)
		memset(timed->walks[i], 0, sizeof(struct recency));
	for (uint32_t i = 0; i < TLB_SIZES; i++) {
		struct core *core = &timed->cores[i];
		struct last_level *l3 = &core->memory.l3;
		/* Without the clock's rate: as if windows followed one another. */
		const ticks program_time = options->cycle_ps ?
			cpu_ns * 1000 / options->cycle_ps * TICKS_PER_CYCLE : core->retired;

		last_level_share(l3, core->config->l3_bytes, touched_bytes);
		last_level_begin(l3, core->retired, program_time, touched_bytes, timed->pace[i]);
		core->translation.isolated_share =
			share((uint64_t)core->config->isolated_pages << base, touched_bytes);
	}
}

static uint64_t page_of(const struct timed_cores *timed, enum tlb_size size, uint64_t address)
{
	return address >> timed->options->tlb.page_shift[size];
}

void timed_cores_walked(struct timed_cores *timed, enum tlb_size size, uint64_t address,
			uint64_t time)
{
	const uint64_t huge = page_of(timed, TLB_HUGE, address);

	if (!timed->walks[0])
		return;
	if (size == TLB_HUGE) {
		recency_walk(timed->walks[AGES_HUGE], huge, time);
		return;
	}
	recency_walk(timed->walks[AGES_BASE], page_of(timed, TLB_BASE, address), time);
	recency_walk(timed->walks[AGES_HUGE_BY_BASE], huge, time);
}

bool timed_cores_are_new_to(const struct timed_cores *timed, uint64_t address, uint64_t time)
{
	return timed->walks[AGES_BASE] &&
	       !recency_look(timed->walks[AGES_BASE], page_of(timed, TLB_BASE, address), time).page;
}

/*
 * The ages of a page's entry.  If nothing walked to it in this window, which began `time`
 * references ago, it is older than that.
 */
static struct recency_ages look(const struct timed_cores *timed, unsigned kind, uint64_t page,
				uint64_t time)
{
	const uint64_t older = time ? time : 1;
	struct recency_ages ages = recency_look(timed->walks[kind], page, time);

	if (!ages.page)
		ages.page = older;
	if (!ages.line)
		ages.line = older;
	return ages;
}

static struct walk_ages ages_of(const struct timed_cores *timed, enum tlb_size size,
				uint64_t address, uint64_t time)
{
	const uint64_t huge = page_of(timed, TLB_HUGE, address);
	struct recency_ages own;

	if (size == TLB_BASE)
		return (struct walk_ages){
			.base = look(timed, AGES_BASE, page_of(timed, TLB_BASE, address), time),
			.huge = look(timed, AGES_HUGE_BY_BASE, huge, time),
		};
	own = look(timed, AGES_HUGE, huge, time);
	return (struct walk_ages){ .base = own, .huge = own };
}

/* TLB entries hold pieces of larger pages if the host's pages are smaller. */
static bool splintered(const struct timed_cores *timed, uint32_t core)
{
	const uint32_t host = timed->options->core.host_shift;

	return host && host < timed->options->tlb.page_shift[core];
}

static void note(struct timed_cores *timed, uint32_t core, enum tlb_size size, uint64_t address,
		 bool walk, uint64_t time)
{
	struct translation *translation = &timed->cores[core].translation;
	struct walk_ages ages;

	if (!walk || !timed->walks[0]) {
		translation_missed(translation, address, walk ? MISS_WALK : MISS_STLB_HIT);
		return;
	}
	ages = ages_of(timed, size, address, time);
	translation_walked(translation, address, &ages);
}

void timed_cores_missed(struct timed_cores *timed, enum tlb_size size, uint64_t address, bool walk,
			uint64_t time)
{
	if (!splintered(timed, size))
		note(timed, size, size, address, walk, time);
	if (size != TLB_BASE)
		return;
	for (uint32_t core = 0; core < TLB_SIZES; core++)
		if (splintered(timed, core))
			note(timed, core, TLB_BASE, address, walk, time);
}

void timed_cores_execute(struct timed_cores *timed, const struct code_block *code,
			 const struct timed_block *block, const uint64_t *addresses, uint64_t next)
{
	static struct outcomes outcomes;
	struct departure departure = next && next == code->target && code->end == ENDS_BRANCH ?
					     block->taken : block->not_taken;

	departure.target = next;
	block_predict(block->block, &departure, &timed->branches, &outcomes);
	wrong_paths_follow(&timed->paths, block->block, &departure, &outcomes);
	block_run(block->block, &departure, &outcomes, addresses, timed->cores, TLB_SIZES);
	if (block->repeats)
		string_lines_run(code, addresses, timed->cores, TLB_SIZES);
}

static void touch(struct timed_cores *timed, uint64_t address, uint64_t bytes, bool change)
{
	for (uint32_t core = 0; core < TLB_SIZES; core++)
		for (uint64_t line = address >> LINE_SHIFT;
		     line <= (address + bytes - 1) >> LINE_SHIFT; line++)
			memory_touch(&timed->cores[core].memory, line, change);
}

void timed_cores_touch(struct timed_cores *timed, const struct code_block *code,
		       const uint64_t *addresses)
{
	for (unsigned i = 0; i < code->reference_count; i++) {
		const struct code_reference *reference = &code->references[i];
		const bool repeats = i + 1u < code->reference_count &&
				     reference[1].kind == REFERENCE_LENGTH;
		const uint64_t bytes = repeats ? addresses[i + 1] : reference->bytes;

		if (reference->kind != REFERENCE_LENGTH && addresses[i] && bytes)
			touch(timed, addresses[i], bytes, reference->kind != REFERENCE_LOAD);
	}
}

void timed_cores_cleared(struct timed_cores *timed, uint64_t address)
{
	const uint64_t bytes = UINT64_C(1) << timed->options->tlb.page_shift[TLB_BASE];

	touch(timed, address & -bytes, bytes, true);
}
