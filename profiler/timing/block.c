/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "block.h"

void block_predict(const struct block *block, const struct departure *departure,
		   struct branches *branches, struct outcomes *outcomes)
{
	outcomes->path_end_count = outcomes->changed_count = 0;
	for (uint32_t i = 0; i < departure->branches; i++) {
		bool last = i + 1 == departure->branches;

		outcomes->predicted[i] = branch_predicted(
			branches, block_branch(block, i),
			last && departure->taken);
	}
	outcomes->target_predicted =
		!departure->indirect ||
		target_predicted(branches, block_branch(block, 0),
				 departure->target);
}

static void put(struct core *core, const struct operation *op, ticks time)
{
	/* The value comes from another path than the one that the core is on. */
	if (core->diverged)
		time = later(time, core->front);
	core->registers[op->to] = time;
	for (uint32_t i = 1; i < op->b; i++)
		core->registers[op->to + i] = time;
	core_done(core, time);
}

/* Wrong paths end here; registers from `from` on were changed since the previous end. */
static void end_path(const struct outcomes *outcomes, const struct path_end *end,
		     uint32_t from, struct core *core)
{
	if (!end->converged) {
		core_lost(core);
		return;
	}
	for (; from < end->changed; from++)
		for (uint32_t i = 0; i < outcomes->changed[from].count; i++) {
			ticks *known = &core->registers[
				outcomes->changed[from].first + i];

			*known = later(*known, core->front);
		}
	core_converged(core);
}

/* All ends of paths before this operation; returns the next. */
static const struct path_end *
end_paths(const struct outcomes *outcomes, const struct path_end *next,
	  uint32_t operation, struct core *cores, uint32_t count)
{
	const struct path_end *last = outcomes->path_ends + outcomes->path_end_count;

	for (; next < last && next->operation <= operation; next++) {
		uint32_t from = next == outcomes->path_ends ? 0 : next[-1].changed;

		for (uint32_t i = 0; i < count; i++)
			end_path(outcomes, next, from, &cores[i]);
	}
	return next;
}

/* When the values of a block are available: each on all cores, side by side. */
static ticks whens[BLOCK_VALUES * BLOCK_CORES];

/* Execute an operation on all cores: it is decoded once for all. */
static inline __attribute__((always_inline)) void execute(const struct operation *op,
			   const struct outcomes *outcomes,
			   const uint64_t *addresses, struct core *cores,
			   uint32_t count)
{
	/* Whether they are values, or other numbers, which are no larger. */
	const ticks *a = whens + op->a * count, *b = whens + op->b * count;
	ticks *to = whens + op->to * count;

	switch ((enum operation_kind)op->kind) {
	case OP_INSTRUCTION: break;
	case OP_JOIN:
#pragma GCC unroll 2
		for (uint32_t i = 0; i < count; i++)
			to[i] = later(a[i], b[i]) +
				(ticks)op->cycles * TICKS_PER_CYCLE;
		break;
	case OP_GET:
#pragma GCC unroll 2
		for (uint32_t i = 0; i < count; i++)
			to[i] = cores[i].registers[op->a];
		break;
	case OP_PUT:
#pragma GCC unroll 2
		for (uint32_t i = 0; i < count; i++)
			put(&cores[i], op, a[i]);
		break;
	case OP_LOAD:
		for (uint32_t i = 0; i < count; i++)
			to[i] = addresses[op->b] ?
				core_load(&cores[i], addresses[op->b], a[i]) :
				a[i];
		break;
	case OP_STORE:
		for (uint32_t i = 0; i < count && addresses[op->to]; i++)
			core_store(&cores[i], addresses[op->to], a[i], b[i]);
		break;
	case OP_FENCE:
		for (uint32_t i = 0; i < count; i++)
			to[i] = core_fence(&cores[i]);
		break;
	case OP_BRANCH:
		for (uint32_t i = 0; i < count; i++)
			core_branch(&cores[i], a[i],
				    outcomes->predicted[op->b]);
		break;
	}
}

/* `count` is a constant where the compiler can exploit it. */
static inline __attribute__((always_inline)) void
run(const struct block *block, const struct departure *departure,
    const struct outcomes *outcomes, const uint64_t *addresses,
    struct core *cores, uint32_t count)
{
	const struct operation *op = block->operations;
	const struct operation *end = op + departure->operations;
	const struct path_end *next = outcomes->path_ends;
	const struct path_end *last = next + outcomes->path_end_count;

	/* Value 0 is always available. */
	for (uint32_t i = 0; i < count; i++)
		whens[i] = 0;
	for (; op < end; op++) {
		if (next < last)
			next = end_paths(outcomes, next,
					 (uint32_t)(op - block->operations),
					 cores, count);
		if (op->kind != OP_INSTRUCTION) {
			execute(op, outcomes, addresses, cores, count);
			continue;
		}
#pragma GCC unroll 2
		for (uint32_t i = 0; i < count; i++)
			core_instruction(&cores[i]);
	}
	for (uint32_t i = 0; i < count && departure->indirect; i++)
		core_branch(&cores[i], whens[departure->target_value * count + i],
			    outcomes->target_predicted);
	end_paths(outcomes, next, departure->operations, cores, count);
}

/* On base and on huge pages, without views: the common case. */
#define MOST_OFTEN 2u

void block_run(const struct block *block, const struct departure *departure,
	       const struct outcomes *outcomes, const uint64_t *addresses,
	       struct core *cores, uint32_t count)
{
	if (count == MOST_OFTEN)
		run(block, departure, outcomes, addresses, cores, MOST_OFTEN);
	else
		run(block, departure, outcomes, addresses, cores, count);
}
