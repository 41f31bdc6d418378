/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "block_ends.h"

#include <string.h>

#include "area.h"

#define RSP 4

/* The stream is complete up to here. */
static void finish(struct translation *made, unsigned records)
{
	emit_add(&made->emitter, made->first, made->first, (int32_t)(8 * records));
	emit_save(&made->emitter, AREA_NEXT, made->first);
}

static void restore(struct translation *made)
{
	emit_restore(&made->emitter, made->first, AREA_FIRST);
	emit_restore(&made->emitter, made->second, AREA_SECOND);
}

/* The distance at `at` leads to an int3 that says why it came there, or to the target's code. */
static int leave(struct translation *made, uint32_t at, enum exit_kind kind, uint64_t target)
{
	const struct cached_block *known =
		kind == EXIT_CONTINUES ? address_map_get(&made->translator->by_address, target) : NULL;
	const struct code_exit code_exit = { .kind = kind, .target = target, .jump = at };
	const uint32_t to = known ? known->offset : made->emitter.used, distance = to - (at + 4);

	memcpy(made->emitter.code + at, &distance, sizeof(distance));
	if (known)
		return 0;
	emit_u8(&made->emitter, INT3);
	return code_cache_add_exit(made->translator, to, &code_exit);
}

static int leave_by_jump(struct translation *made, enum exit_kind kind, uint64_t target)
{
	return leave(made, emit_jump(&made->emitter), kind, target);
}

/* second = where it goes */
static void emit_target(struct translation *made, const struct instruction *instruction)
{
	const ZydisDecodedOperand *operand = &instruction->zydis_operands[0];
	const struct memory_operand *memory = &instruction->operands[0];

	if (operand->type == ZYDIS_OPERAND_TYPE_REGISTER) {
		emit_move(&made->emitter, made->second,
			  (int)(operand->reg.value - ZYDIS_REGISTER_RAX));
	} else if (memory->base == REGISTER_RIP) {
		emit_constant(&made->emitter, made->second,
			      instruction->address + instruction->length +
				      (uint64_t)memory->displacement);
		emit_load(&made->emitter, made->second,
			  &(struct memory_operand){ .base = (int8_t)made->second,
						    .index = REGISTER_NONE, .scale = 1,
						    .fs = memory->fs });
	} else {
		emit_load(&made->emitter, made->second, memory);
	}
}

static void emit_return_address(struct translation *made)
{
	emit_constant(&made->emitter, made->first, made->past);
	emit_push(&made->emitter, made->first);
}

static int end_branch(struct translation *made, const struct instruction *instruction,
		      struct ahead *ahead)
{
	uint32_t taken, falls;

	finish(made, made->records);
	restore(made);
	taken = emit_branch(&made->emitter, instruction->zydis.opcode & 0xfu);
	falls = emit_jump(&made->emitter);
	made->end = ENDS_BRANCH;
	made->target = instruction->target;
	add_ahead(ahead, made->past);
	add_ahead(ahead, instruction->target);
	if (leave(made, falls, EXIT_CONTINUES, made->past) < 0)
		return -1;
	return leave(made, taken, EXIT_CONTINUES, instruction->target);
}

static int end_direct(struct translation *made, const struct instruction *instruction,
		      struct ahead *ahead)
{
	finish(made, made->records);
	made->end = ENDS_JUMP;
	made->target = instruction->target;
	add_ahead(ahead, instruction->target);
	if (instruction->flow == FLOW_CALL) {
		made->end = ENDS_CALL;
		emit_return_address(made);
		add_ahead(ahead, made->past);
	}
	restore(made);
	return leave_by_jump(made, EXIT_CONTINUES, instruction->target);
}

static void end_indirect(struct translation *made, const struct instruction *instruction,
			 struct ahead *ahead)
{
	finish(made, made->records);
	if (instruction->flow == FLOW_RETURN) {
		const ZydisDecodedOperand *operand = &instruction->zydis_operands[0];

		made->end = ENDS_RETURN;
		emit_pop(&made->emitter, made->second);
		if (operand->type == ZYDIS_OPERAND_TYPE_IMMEDIATE)
			emit_add(&made->emitter, RSP, RSP, (int32_t)operand->imm.value.u);
	} else {
		emit_target(made, instruction);
		made->end = ENDS_INDIRECT_JUMP;
		if (instruction->flow == FLOW_CALL_INDIRECT) {
			made->end = ENDS_INDIRECT_CALL;
			emit_return_address(made);
			add_ahead(ahead, made->past);
		}
	}
	emit_indirect(&made->emitter, made->second, made->first, made->second);
}

int block_end(struct translation *made, enum flow flow, struct ahead *ahead)
{
	const struct instruction *last = &made->instructions[made->count - 1];

	switch (flow) {
	case FLOW_BRANCH:
		return end_branch(made, last, ahead);
	case FLOW_JUMP:
	case FLOW_CALL:
		return end_direct(made, last, ahead);
	case FLOW_RETURN:
	case FLOW_JUMP_INDIRECT:
	case FLOW_CALL_INDIRECT:
		end_indirect(made, last, ahead);
		return 0;
	case FLOW_SYSTEM_CALL:
		made->end = ENDS_SYSTEM_CALL;
		add_ahead(ahead, made->past);
		finish(made, made->records);
		restore(made);
		return leave_by_jump(made, EXIT_CALL, last->address);
	case FLOW_ON:
	case FLOW_STEP:
	case FLOW_REFUSE:
		break;
	}
	made->end = ENDS_CUT;
	made->target = made->past;
	add_ahead(ahead, made->past);
	finish(made, made->records);
	restore(made);
	return leave_by_jump(made, EXIT_CONTINUES, made->past);
}

/* Where branches lead that end a part, but not the last one: fewer parts were executed. */
int block_side_exits(struct translation *made, uint32_t number, struct ahead *ahead)
{
	for (unsigned i = 0; i + 1 < made->part_count; i++) {
		const struct translated_part *part = &made->parts[i];
		const uint32_t distance = made->emitter.used - (part->branch + 4);

		memcpy(made->emitter.code + part->branch, &distance, sizeof(distance));
		emit_store_constant(&made->emitter, made->first,
				    (int32_t)(uint32_t)(STREAM_TAG | (number + i)));
		finish(made, part->records);
		restore(made);
		add_ahead(ahead, part->target);
		if (leave_by_jump(made, EXIT_CONTINUES, part->target) < 0)
			return -1;
	}
	return 0;
}
