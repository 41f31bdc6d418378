/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The code of a block: the program's instructions, and ours that write down their references. */
#include <string.h>

#include "area.h"
#include "translate.h"
#include "translation.h"

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

/* At its end; what may come next is added to `ahead`.  Returns 0, or -1 with errno ENOMEM. */
static int block_end(struct translation *made, enum flow flow, struct ahead *ahead)
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
/*
 * By branches that end a part, but not the last one: fewer parts were executed.  `number` is that
 * of the first.  Returns as above.
 */
static int block_side_exits(struct translation *made, uint32_t number, struct ahead *ahead)
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

#define RSI 6
#define RDI 7

static void add_reference(struct translation *made, unsigned instruction, uint8_t kind,
			  uint16_t bytes, struct slot slot)
{
	made->slots[made->references] = slot;
	made->made[made->references++] = (struct code_reference){
		.instruction = (uint16_t)instruction, .bytes = bytes, .kind = kind
	};
}

/* Returns its index. */
static uint8_t record(struct translation *made, int reg)
{
	emit_store_at(&made->emitter, made->first, (int32_t)(8 * made->records), reg);
	return (uint8_t)made->records++;
}

/*
 * The same of a register that addresses memory by itself, unless its value follows from a record.
 */
static void record_base(struct translation *made, int reg, struct slot *slot)
{
	if (!made->recorded[reg].record) {
		made->recorded[reg].record = record(made, reg);
		made->recorded[reg].added = 0;
	}
	slot->record = made->recorded[reg].record;
	slot->displacement += made->recorded[reg].added;
}

static int written_register(const ZydisDecodedOperand *operand)
{
	ZydisRegister whole;

	if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER ||
	    !(operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
		return REGISTER_NONE;
	whole = ZydisRegisterGetLargestEnclosing(ZYDIS_MACHINE_MODE_LONG_64, operand->reg.value);
	if (whole < ZYDIS_REGISTER_RAX || whole > ZYDIS_REGISTER_R15)
		return REGISTER_NONE;
	return (int)(whole - ZYDIS_REGISTER_RAX);
}

/* What the instruction adds to this register, which it writes; false: more than a constant. */
static bool adds(const struct instruction *instruction, int reg, int64_t *constant)
{
	const ZydisDecodedOperand *operands = instruction->zydis_operands;
	const ZydisDecodedInstruction *z = &instruction->zydis;
	const bool explicit_too = written_register(&operands[0]) == reg;

	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_PUSH:
	case ZYDIS_MNEMONIC_POP:
		*constant = z->mnemonic == ZYDIS_MNEMONIC_PUSH ? -8 : 8;
		return reg == RSP && z->operand_width == 64 && !explicit_too;
	case ZYDIS_MNEMONIC_ADD:
	case ZYDIS_MNEMONIC_SUB:
		*constant = operands[1].imm.value.s;
		if (z->mnemonic == ZYDIS_MNEMONIC_SUB)
			*constant = -*constant;
		return explicit_too && operands[0].size == 64 &&
		       operands[1].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
	default:
		return false;
	}
}

/* The instruction was executed: what is known of the registers that it writes? */
static void follow_registers(struct translation *made, const struct instruction *instruction)
{
	/* Zydis does not say that these advance. */
	const bool string = instruction->zydis.meta.category == ZYDIS_CATEGORY_STRINGOP;
	uint16_t written = string ? 1u << RSI | 1u << RDI : 0;
	int64_t constant;

	for (unsigned i = 0; i < instruction->zydis.operand_count; i++) {
		const int reg = written_register(&instruction->zydis_operands[i]);

		if (reg >= 0)
			written |= (uint16_t)(1u << reg);
	}
	for (int reg = 0; reg < 16; reg++) {
		if (!(written & 1u << reg))
			continue;
		if (adds(instruction, reg, &constant))
			made->recorded[reg].added += constant;
		else
			made->recorded[reg].record = 0;
	}
}

/* Write down where this operand is. */
static void note_operand(struct translation *made, unsigned index, const struct memory_operand *operand)
{
	const struct instruction *instruction = &made->instructions[index];
	const bool alone = operand->index < 0 && !operand->narrow;
	struct slot slot = { SLOT_FIXED, 0, operand->displacement };

	if (operand->base == REGISTER_RIP) {
		slot.displacement += (int64_t)(instruction->address + instruction->length);
	} else if (operand->base < 0 && alone) {
		slot.source = operand->fs ? SLOT_FS_FIXED : SLOT_FIXED;
	} else {
		slot.source = operand->fs ? SLOT_FS_RECORD : SLOT_RECORD;
		if (alone) {
			record_base(made, operand->base, &slot);
		} else {
			emit_address(&made->emitter, made->second, operand);
			slot.record = record(made, made->second);
			slot.displacement = 0;
		}
	}
	if (operand->base == REGISTER_RIP && operand->fs)
		slot.source = SLOT_FS_FIXED;
	add_reference(made, index, operand->kind, operand->bytes, slot);
}

/* The instruction, with RIP in its operand replaced by another register. */
static void emit_instruction(struct translation *made, unsigned index)
{
	const struct instruction *instruction = &made->instructions[index];
	const ZydisDecodedInstruction *z = &instruction->zydis;
	unsigned modrm, rest;

	if (!names_relative(instruction)) {
		emit_bytes(&made->emitter, instruction->bytes, instruction->length);
		return;
	}
	emit_constant(&made->emitter, made->second,
		      instruction->address + instruction->length + (uint64_t)z->raw.disp.value);
	modrm = z->raw.modrm.offset;
	rest = modrm + 1u + 4u;
	emit_bytes(&made->emitter, instruction->bytes, modrm);
	emit_u8(&made->emitter, (unsigned)z->raw.modrm.reg << 3 | (unsigned)made->second);
	emit_bytes(&made->emitter, instruction->bytes + rest, instruction->length - rest);
}

/* A string instruction: where each operand begins before, and how far the last one came after. */
static void emit_repeated(struct translation *made, unsigned index)
{
	const struct instruction *instruction = &made->instructions[index];
	const uint8_t last = (uint8_t)(made->records + instruction->operand_count);

	for (unsigned i = 0; i < instruction->operand_count; i++) {
		const struct memory_operand *operand = &instruction->operands[i];
		const struct slot slot = { SLOT_STRING, record(made, operand->base), 0 };

		add_reference(made, index, operand->kind, operand->bytes, slot);
		add_reference(made, index, REFERENCE_LENGTH, 0,
			      (struct slot){ SLOT_LENGTH, last, 0 });
	}
	emit_instruction(made, index);
	record(made, instruction->operands[instruction->operand_count - 1].base);
}

/* The part is complete; the next one's code follows. */
static void end_part(struct translation *made, struct translated_part *part,
		     const struct instruction *branch)
{
	part->references = (uint8_t)made->references;
	part->records = (uint8_t)made->records;
	part->branch = emit_branch(&made->emitter, branch->zydis.opcode & 0xfu);
	part[1].offset = made->emitter.used;
}

int write_block(struct translation *made, enum flow flow, uint32_t number, struct ahead *ahead)
{
	struct translated_part *part = made->parts;
	struct translated_part *const last = part + made->part_count - 1;

	made->begin = made->emitter.used;
	made->references = 0;
	made->records = 1;
	memset(made->recorded, 0, sizeof(made->recorded));
	made->emitted = true;
	emit_save(&made->emitter, AREA_FIRST, made->first);
	emit_save(&made->emitter, AREA_SECOND, made->second);
	emit_restore(&made->emitter, made->first, AREA_NEXT);
	emit_store_constant(&made->emitter, made->first,
			    (int32_t)(uint32_t)(STREAM_TAG | (number + made->part_count - 1)));
	part->offset = made->begin;
	for (unsigned i = 0; i < made->count; i++) {
		const struct instruction *instruction = &made->instructions[i];

		if (instruction->repeats) {
			emit_repeated(made, i);
			follow_registers(made, instruction);
			continue;
		}
		for (unsigned k = 0; k < instruction->operand_count; k++)
			note_operand(made, i, &instruction->operands[k]);
		follow_registers(made, instruction);
		if (instruction->flow == FLOW_ON)
			emit_instruction(made, i);
		else
		if (part < last && i + 1 == part->instructions)
			end_part(made, part++, instruction);
	}
	last->references = (uint8_t)made->references;
	last->records = (uint8_t)made->records;
	if (block_end(made, flow, ahead) < 0)
		return -1;
	return block_side_exits(made, number, ahead);
}
