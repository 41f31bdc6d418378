/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "emit.h"

#include <string.h>

#include "area.h"

#define RCX 1
#define RSP 4
#define RBP 5
#define FS_PREFIX 0x64u
#define GS_PREFIX 0x65u
#define ADDRESS_PREFIX 0x67u
#define MOV_STORE 0x89u
#define MOV_LOAD 0x8bu
#define LEA 0x8du

void emit_bytes(struct emitter *emitter, const void *bytes, size_t count)
{
	memcpy(emitter->code + emitter->used, bytes, count);
	emitter->used += (uint32_t)count;
}

void emit_u8(struct emitter *emitter, unsigned byte)
{
	emitter->code[emitter->used++] = (uint8_t)byte;
}

void emit_u32(struct emitter *emitter, uint32_t value)
{
	emit_bytes(emitter, &value, sizeof(value));
}

static unsigned low(int reg)
{
	return (unsigned)reg & 7u;
}

static unsigned high(int reg)
{
	return reg >= 8 ? 1u : 0u;
}

/* REX.W with the extensions of ModRM's reg, SIB's index and the base. */
static void emit_rex(struct emitter *emitter, int reg, int index, int base)
{
	emit_u8(emitter, 0x48u | high(reg) << 2 | high(index) << 1 | high(base));
}

/* An instruction on `reg` and a word of the area. */
static void emit_area(struct emitter *emitter, unsigned opcode, int reg, uint32_t offset)
{
	emit_u8(emitter, GS_PREFIX);
	emit_rex(emitter, reg, 0, 0);
	emit_u8(emitter, opcode);
	/* No base, no index: the displacement alone. */
	emit_u8(emitter, 0x04u | low(reg) << 3);
	emit_u8(emitter, 0x25u);
	emit_u32(emitter, offset);
}

void emit_save(struct emitter *emitter, uint32_t offset, int from)
{
	emit_area(emitter, MOV_STORE, from, offset);
}

void emit_restore(struct emitter *emitter, int to, uint32_t offset)
{
	emit_area(emitter, MOV_LOAD, to, offset);
}

void emit_move(struct emitter *emitter, int to, int from)
{
	emit_rex(emitter, from, 0, to);
	emit_u8(emitter, MOV_STORE);
	emit_u8(emitter, 0xc0u | low(from) << 3 | low(to));
}

void emit_constant(struct emitter *emitter, int to, uint64_t value)
{
	if (value <= UINT32_MAX) {
		if (high(to))
			emit_u8(emitter, 0x41u);
		emit_u8(emitter, 0xb8u | low(to));
		emit_u32(emitter, (uint32_t)value);
		return;
	}
	emit_rex(emitter, 0, 0, to);
	emit_u8(emitter, 0xb8u | low(to));
	emit_bytes(emitter, &value, sizeof(value));
}

static unsigned log_scale(unsigned scale)
{
	return scale == 8 ? 3u : scale == 4 ? 2u : scale == 2 ? 1u : 0u;
}

/* opcode reg, [base + index * scale + displacement]; base, index: REGISTER_NONE if there is none */
static void emit_memory(struct emitter *emitter, unsigned opcode, int reg, int base, int index,
			unsigned scale, int32_t displacement)
{
	const bool sib = index >= 0 || base < 0 || low(base) == RSP;
	const unsigned sib_index = index >= 0 ? low(index) : RSP;
	unsigned mod = 2;

	emit_rex(emitter, reg, index >= 0 ? index : 0, base >= 0 ? base : 0);
	emit_u8(emitter, opcode);
	if (base < 0) {
		emit_u8(emitter, low(reg) << 3 | 4u);
		emit_u8(emitter, log_scale(scale) << 6 | sib_index << 3 | RBP);
		emit_u32(emitter, (uint32_t)displacement);
		return;
	}
	if (displacement == 0 && low(base) != RBP)
		mod = 0;
	else if (displacement >= -128 && displacement < 128)
		mod = 1;
	emit_u8(emitter, mod << 6 | low(reg) << 3 | (sib ? 4u : low(base)));
	if (sib)
		emit_u8(emitter, log_scale(scale) << 6 | sib_index << 3 | low(base));
	if (mod == 1)
		emit_u8(emitter, (uint8_t)displacement);
	else if (mod == 2)
		emit_u32(emitter, (uint32_t)displacement);
}

static void emit_operand(struct emitter *emitter, unsigned opcode, int reg,
			 const struct memory_operand *operand)
{
	if (operand->narrow)
		emit_u8(emitter, ADDRESS_PREFIX);
	emit_memory(emitter, opcode, reg, operand->base, operand->index, operand->scale,
		    (int32_t)operand->displacement);
}

void emit_address(struct emitter *emitter, int to, const struct memory_operand *operand)
{
	emit_operand(emitter, LEA, to, operand);
}

void emit_load(struct emitter *emitter, int to, const struct memory_operand *operand)
{
	if (operand->fs)
		emit_u8(emitter, FS_PREFIX);
	emit_operand(emitter, MOV_LOAD, to, operand);
}

void emit_store_at(struct emitter *emitter, int base, int32_t displacement, int from)
{
	emit_memory(emitter, MOV_STORE, from, base, REGISTER_NONE, 1, displacement);
}

void emit_add(struct emitter *emitter, int to, int base, int32_t displacement)
{
	emit_memory(emitter, LEA, to, base, REGISTER_NONE, 1, displacement);
}

void emit_store_constant(struct emitter *emitter, int base, int32_t value)
{
	emit_memory(emitter, 0xc7u, 0, base, REGISTER_NONE, 1, 0);
	emit_u32(emitter, (uint32_t)value);
}

void emit_push(struct emitter *emitter, int reg)
{
	if (high(reg))
		emit_u8(emitter, 0x41u);
	emit_u8(emitter, 0x50u | low(reg));
}

void emit_pop(struct emitter *emitter, int reg)
{
	if (high(reg))
		emit_u8(emitter, 0x41u);
	emit_u8(emitter, 0x58u | low(reg));
}

uint32_t emit_jump(struct emitter *emitter)
{
	emit_u8(emitter, 0xe9u);
	emit_u32(emitter, 0);
	return emitter->used - 4;
}

uint32_t emit_branch(struct emitter *emitter, unsigned condition)
{
	emit_u8(emitter, 0x0fu);
	emit_u8(emitter, 0x80u | condition);
	emit_u32(emitter, 0);
	return emitter->used - 4;
}

void emit_jump_to(struct emitter *emitter, uint32_t offset)
{
	emit_u8(emitter, 0xe9u);
	emit_u32(emitter, offset - (emitter->used + 4));
}

/* rcx = the area's word at `offset` + 8 * the low 16 bits of `target` */
static void emit_recent(struct emitter *emitter, int target, uint32_t offset)
{
	/* movzwl target, %ecx */
	if (high(target))
		emit_u8(emitter, 0x41u);
	emit_u8(emitter, 0x0fu);
	emit_u8(emitter, 0xb7u);
	emit_u8(emitter, 0xc0u | RCX << 3 | low(target));
	/* movq %gs:offset(,%rcx,8), %rcx */
	emit_u8(emitter, GS_PREFIX);
	emit_memory(emitter, MOV_LOAD, RCX, REGISTER_NONE, RCX, 8, (int32_t)offset);
}

static void restore_block(struct emitter *emitter, bool third, int first, int second)
{
	if (third)
		emit_restore(emitter, RCX, AREA_THIRD);
	emit_restore(emitter, first, AREA_FIRST);
	emit_restore(emitter, second, AREA_SECOND);
}

void emit_indirect(struct emitter *emitter, int target, int first, int second)
{
	const int other = target == first ? second : first;
	/* jrcxz is the one test that leaves the flags alone. */
	const bool third = first != RCX && second != RCX;
	uint32_t hit;

	if (target == RCX) {
		emit_move(emitter, other, RCX);
		target = other;
	}
	if (third)
		emit_save(emitter, AREA_THIRD, RCX);
	emit_recent(emitter, target, AREA_RECENT);
	emit_memory(emitter, LEA, RCX, RCX, target, 1, 0);
	emit_u8(emitter, 0xe3u);
	hit = emitter->used;
	emit_u8(emitter, 0);
	emit_save(emitter, AREA_TARGET, target);
	restore_block(emitter, third, first, second);
	emit_jump_to(emitter, 0);
	emitter->code[hit] = (uint8_t)(emitter->used - hit - 1);
	emit_recent(emitter, target, AREA_RECENT_CODE);
	emit_save(emitter, AREA_CODE_OF, RCX);
	restore_block(emitter, third, first, second);
	/* jmpq *%gs:AREA_CODE_OF */
	emit_u8(emitter, GS_PREFIX);
	emit_u8(emitter, 0xffu);
	emit_u8(emitter, 0x24u);
	emit_u8(emitter, 0x25u);
	emit_u32(emitter, AREA_CODE_OF);
}
