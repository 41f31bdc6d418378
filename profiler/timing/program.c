/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "program.h"

void program_predict(const struct program *program,
		     const struct departure *departure,
		     struct branches *branches, struct outcomes *outcomes)
{
	outcomes->turn_count = outcomes->changed_count = 0;
	for (uint32_t i = 0; i < departure->branches; i++) {
		bool last = i + 1 == departure->branches;

		outcomes->predicted[i] = branch_predicted(
			branches, program_branch(program, i),
			last && departure->taken);
	}
	outcomes->target_predicted =
		!departure->indirect ||
		target_predicted(branches, program_branch(program, 0),
				 departure->target);
}

static void put(struct core *core, const struct operation *op, ticks time)
{
	/* The path that the core is on is not the one that gives this value. */
	if (core->wrong_path)
		time = later(time, core->front);
	core->registers[op->to] = time;
	for (uint32_t i = 1; i < op->b; i++)
		core->registers[op->to + i] = time;
	core_done(core, time);
}

/* Wrong paths have come to `turn`, the one before which was at `from`. */
static void take_turn(const struct outcomes *outcomes, const struct turn *turn,
		      uint32_t from, struct core *core)
{
	if (!turn->met) {
		core_lost(core);
		return;
	}
	for (; from < turn->changed; from++)
		for (uint32_t i = 0; i < outcomes->changed[from].count; i++) {
			ticks *known = &core->registers[
				outcomes->changed[from].first + i];

			*known = later(*known, core->front);
		}
	core_met(core);
}

/* All turns before this operation; returns the next. */
static const struct turn *
take_turns(const struct outcomes *outcomes, const struct turn *turn,
	   uint32_t operation, struct core *cores, uint32_t count)
{
	const struct turn *last = outcomes->turns + outcomes->turn_count;

	for (; turn < last && turn->operation <= operation; turn++) {
		uint32_t from = turn == outcomes->turns ? 0 : turn[-1].changed;

		for (uint32_t i = 0; i < count; i++)
			take_turn(outcomes, turn, from, &cores[i]);
	}
	return turn;
}

/* When the values of a block are there: each on all cores, side by side. */
static ticks whens[PROGRAM_VALUES * PROGRAM_CORES];

/* Execute an operation on all cores: what it is, is found out once for all. */
static inline __attribute__((always_inline)) void execute(const struct operation *op,
			   const struct outcomes *outcomes,
			   const uint64_t *addresses, struct core *cores,
			   uint32_t count)
{
	/* Where they are values, and not other numbers, which are no larger. */
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

/* `count` is a constant where the compiler is to make much of it. */
static inline __attribute__((always_inline)) void
run(const struct program *program, const struct departure *departure,
    const struct outcomes *outcomes, const uint64_t *addresses,
    struct core *cores, uint32_t count)
{
	const struct operation *op = program->operations;
	const struct operation *end = op + departure->operations;
	const struct turn *turn = outcomes->turns;
	const struct turn *last = turn + outcomes->turn_count;

	/* Value 0 always is there. */
	for (uint32_t i = 0; i < count; i++)
		whens[i] = 0;
	for (; op < end; op++) {
		if (turn < last)
			turn = take_turns(outcomes, turn,
					  (uint32_t)(op - program->operations),
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
	take_turns(outcomes, turn, departure->operations, cores, count);
}

/* On base and on huge pages, without views: most often. */
#define MOST_OFTEN 2u

void program_run(const struct program *program,
		 const struct departure *departure,
		 const struct outcomes *outcomes, const uint64_t *addresses,
		 struct core *cores, uint32_t count)
{
	if (count == MOST_OFTEN)
		run(program, departure, outcomes, addresses, cores, MOST_OFTEN);
	else
		run(program, departure, outcomes, addresses, cores, count);
}
