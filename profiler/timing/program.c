/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "program.h"

void program_predict(const struct program *program,
		     const struct departure *departure,
		     struct branches *branches, struct outcomes *outcomes)
{
	/* The program's own address tells its branches from others'. */
	uint64_t name = (uint64_t)(uintptr_t)program;

	for (uint32_t i = 0; i < departure->branches; i++) {
		bool last = i + 1 == departure->branches;

		outcomes->predicted[i] = branch_predicted(
			branches, name + i, last && departure->taken);
	}
	outcomes->target_predicted =
		!departure->indirect ||
		target_predicted(branches, name, departure->target);
}

static ticks later(ticks a, ticks b)
{
	return a > b ? a : b;
}

static void put(struct core *core, const struct operation *op, ticks time)
{
	for (uint32_t i = 0; i < op->b; i++)
		core->registers[op->to + i] = time;
	core_done(core, time);
}

void program_run(const struct program *program,
		 const struct departure *departure,
		 const struct outcomes *outcomes, const uint64_t *addresses,
		 struct core *core)
{
	static ticks when[PROGRAM_VALUES];
	const struct operation *op = program->operations;
	const struct operation *end = op + departure->operations;

	for (; op < end; op++) {
		switch ((enum operation_kind)op->kind) {
		case OP_INSTRUCTION:
			core_instruction(core);
			break;
		case OP_JOIN:
			when[op->to] = later(when[op->a], when[op->b]) +
				       (ticks)op->cycles * TICKS_PER_CYCLE;
			break;
		case OP_GET:
			when[op->to] = core->registers[op->a];
			break;
		case OP_PUT:
			put(core, op, when[op->a]);
			break;
		case OP_LOAD:
			when[op->to] = addresses[op->b] ?
				core_load(core, addresses[op->b], when[op->a]) :
				when[op->a];
			break;
		case OP_STORE:
			if (addresses[op->to])
				core_store(core, addresses[op->to], when[op->a],
					   when[op->b]);
			break;
		case OP_FENCE:
			when[op->to] = core_fence(core);
			break;
		case OP_BRANCH:
			core_branch(core, when[op->a],
				    outcomes->predicted[op->b]);
			break;
		}
	}
	if (departure->indirect)
		core_branch(core, when[departure->target_value],
			    outcomes->target_predicted);
}
