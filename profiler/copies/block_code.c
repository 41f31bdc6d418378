/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The code of a block: the program's instructions, and ours that write down their references. */
#include <string.h>

#include "area.h"
#include "block_ends.h"
#include "translate.h"
#include "translation.h"

#define RSP 4
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

static void starts_here(struct translation *made, unsigned index)
{
	made->starts[index] = (uint16_t)(made->emitter.used - made->begin);
}

/* The instruction, with RIP in its operand replaced by another register. */
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
	made->body = (uint8_t)(made->emitter.used - made->begin);
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
			starts_here(made, i);
		if (part < last && i + 1 == part->instructions)
			end_part(made, part++, instruction);
	}
	last->references = (uint8_t)made->references;
	last->records = (uint8_t)made->records;
	if (block_end(made, flow, ahead) < 0)
		return -1;
	return block_side_exits(made, number, ahead);
}
