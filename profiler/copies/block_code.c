/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The code of a block: the program's instructions, and ours that write down their references. */
#include <string.h>

#include "area.h"
#include "translate.h"
#include "translation.h"

#define RSP 4

static void add_reference(struct translation *made, unsigned instruction, uint8_t kind,
			  uint16_t bytes, struct slot slot)
{
	made->slots[made->references] = slot;
	made->made[made->references++] = (struct code_reference){
		.instruction = (uint16_t)instruction, .bytes = bytes, .kind = kind
	};
}

static void record(struct translation *made, int reg)
{
	emit_store_at(&made->emitter, made->first, (int32_t)(8 * made->records++), reg);
}

/* Write down where this operand is. */
static void note_operand(struct translation *made, unsigned index, const struct memory_operand *operand)
{
	const struct instruction *instruction = &made->instructions[index];
	const bool alone = operand->index < 0 && !operand->narrow;
	struct slot slot = { SLOT_FIXED, operand->displacement };

	if (operand->base == REGISTER_RIP) {
		slot.displacement += (int64_t)(instruction->address + instruction->length);
	} else if (operand->base < 0 && alone) {
		slot.source = operand->fs ? SLOT_FS_FIXED : SLOT_FIXED;
	} else {
		slot.source = operand->fs ? SLOT_FS_RECORD : SLOT_RECORD;
		if (alone) {
			record(made, operand->base);
		} else {
			emit_address(&made->emitter, made->second, operand);
			record(made, made->second);
			slot.displacement = 0;
		}
	}
	if (operand->base == REGISTER_RIP && operand->fs)
		slot.source = SLOT_FS_FIXED;
	add_reference(made, index, operand->kind, operand->bytes, slot);
}

static void starts_here(struct translation *made, unsigned index)
{
	made->starts[index] = (uint16_t)(made->emitter.used - made->begin);
}

/* The instruction as it is, but for RIP in its operand, which another register replaces. */
static void emit_instruction(struct translation *made, unsigned index)
{
	const struct instruction *instruction = &made->instructions[index];
	const ZydisDecodedInstruction *z = &instruction->zydis;
	unsigned modrm, rest;

	if (!names_relative(instruction)) {
		starts_here(made, index);
		emit_bytes(&made->emitter, instruction->bytes, instruction->length);
		return;
	}
	emit_constant(&made->emitter, made->second,
		      instruction->address + instruction->length + (uint64_t)z->raw.disp.value);
	modrm = z->raw.modrm.offset;
	rest = modrm + 1u + 4u;
	starts_here(made, index);
	emit_bytes(&made->emitter, instruction->bytes, modrm);
	emit_u8(&made->emitter, (unsigned)z->raw.modrm.reg << 3 | (unsigned)made->second);
	emit_bytes(&made->emitter, instruction->bytes + rest, instruction->length - rest);
}

/* A string instruction: where each operand begins before, and how far the last one came after. */
static void emit_repeated(struct translation *made, unsigned index)
{
	const struct instruction *instruction = &made->instructions[index];

	for (unsigned i = 0; i < instruction->operand_count; i++) {
		const struct memory_operand *operand = &instruction->operands[i];

		record(made, operand->base);
		add_reference(made, index, operand->kind, operand->bytes,
			      (struct slot){ SLOT_STRING, 0 });
		add_reference(made, index, REFERENCE_LENGTH, 0, (struct slot){ SLOT_LENGTH, 0 });
	}
	emit_instruction(made, index);
	record(made, instruction->operands[instruction->operand_count - 1].base);
}

/* The stream is complete up to here. */
static void finish(struct translation *made)
{
	emit_add(&made->emitter, made->first, made->first, (int32_t)(8 * made->records));
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

	finish(made);
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
	finish(made);
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
	finish(made);
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

static int end_block(struct translation *made, enum flow flow, struct ahead *ahead)
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
		finish(made);
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
	finish(made);
	restore(made);
	return leave_by_jump(made, EXIT_CONTINUES, made->past);
}

int write_block(struct translation *made, enum flow flow, uint32_t number, struct ahead *ahead)
{
	made->begin = made->emitter.used;
	made->references = 0;
	made->records = 1;
	made->emitted = true;
	emit_save(&made->emitter, AREA_FIRST, made->first);
	emit_save(&made->emitter, AREA_SECOND, made->second);
	emit_restore(&made->emitter, made->first, AREA_NEXT);
	emit_store_constant(&made->emitter, made->first,
			    (int32_t)(uint32_t)(STREAM_TAG | number));
	made->body = (uint8_t)(made->emitter.used - made->begin);
	for (unsigned i = 0; i < made->count; i++) {
		const struct instruction *instruction = &made->instructions[i];

		if (instruction->repeats) {
			emit_repeated(made, i);
			continue;
		}
		for (unsigned k = 0; k < instruction->operand_count; k++)
			note_operand(made, i, &instruction->operands[k]);
		if (instruction->flow == FLOW_ON)
			emit_instruction(made, i);
		else
			starts_here(made, i);
	}
	return end_block(made, flow, ahead);
}
