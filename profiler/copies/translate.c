/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "translate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "area.h"
#include "emit.h"
#include "watcher.h"
#include "instruction.h"
#include "step.h"
#include "vdso.h"

#define RSP 4
/* Registers whose encoding needs no extension bit, RSP and RBP aside. */
#define LOW_REGISTERS 0x00cfu
#define ALL_REGISTERS 0xffffu
/* Blocks that are translated ahead, so that fewer jumps stop the copy. */
#define MOST_AHEAD 24u
#define INT3 0xccu

/* A block in the making. */
struct translation {
	struct translator *translator;
	const struct copy *copy;
	struct emitter emitter;
	uint64_t address, past;
	unsigned count;			/* instructions that it holds */
	unsigned references;
	unsigned records;
	uint16_t used;			/* registers of the program's that it uses */
	bool relative;			/* it accesses memory relative to RIP */
	int first, second;		/* registers that it does not: of our code */
	uint8_t end;			/* enum block_end */
	uint64_t target;
	struct slot slots[CODE_BLOCK_MOST_REFERENCES];
	struct code_reference made[CODE_BLOCK_MOST_REFERENCES];
	struct instruction instructions[CODE_BLOCK_MOST_INSTRUCTIONS + 1];
	uint32_t begin;			/* of its code */
	uint8_t body;			/* see struct cached_block */
	uint16_t starts[CODE_BLOCK_MOST_INSTRUCTIONS];
	bool emitted;
};

/* It may follow: where translation should continue. */
struct ahead {
	uint64_t addresses[MOST_AHEAD];
	unsigned count;
};

static void add_ahead(struct ahead *ahead, uint64_t address)
{
	if (ahead->count < MOST_AHEAD)
		ahead->addresses[ahead->count++] = address;
}

/* Does it name memory relative to RIP, other than as the target of a branch? */
static bool is_relative(const struct instruction *instruction)
{
	const ZydisDecodedInstruction *z = &instruction->zydis;

	return z->attributes & ZYDIS_ATTRIB_HAS_MODRM && z->raw.modrm.mod == 0 &&
	       z->raw.modrm.rm == 5;
}

/* Its extension bits for the base are clear, so that another low register can be the base. */
static bool can_be_moved(const ZydisDecodedInstruction *z)
{
	switch (z->encoding) {
	case ZYDIS_INSTRUCTION_ENCODING_LEGACY:
	case ZYDIS_INSTRUCTION_ENCODING_3DNOW:
		return !(z->attributes & ZYDIS_ATTRIB_HAS_REX) || !z->raw.rex.B;
	case ZYDIS_INSTRUCTION_ENCODING_VEX:
		return z->raw.vex.size == 2 || z->raw.vex.B;
	case ZYDIS_INSTRUCTION_ENCODING_EVEX:
		return z->raw.evex.B && z->raw.evex.X;
	default:
		return false;
	}
}

static int lowest(unsigned registers)
{
	return registers ? __builtin_ctz(registers) : -1;
}

/* Two registers for our code, of those that the program's does not use.  False: there are not. */
static bool choose_registers(struct translation *made, uint16_t used, bool relative)
{
	const unsigned free = ALL_REGISTERS & ~(unsigned)used & ~(1u << RSP);
	const int second = lowest(relative ? free & LOW_REGISTERS : free);
	int first;

	if (second < 0)
		return false;
	first = lowest(free & ~(1u << second));
	if (first < 0)
		return false;
	made->first = first;
	made->second = second;
	return true;
}

static unsigned records_of(const struct instruction *instruction)
{
	return instruction->repeats ? instruction->operand_count + 1u : instruction->operand_count;
}

static unsigned references_of(const struct instruction *instruction)
{
	return instruction->repeats ? 2u * instruction->operand_count : instruction->operand_count;
}

/* Add the next instruction if it fits.  Returns false if the block ends before it. */
static bool take(struct translation *made, struct instruction *instruction)
{
	const uint16_t used = made->used | instruction->registers;
	const bool relative = made->relative || is_relative(instruction);

	if (instruction->flow == FLOW_STEP || instruction->flow == FLOW_REFUSE)
		return false;
	if (made->count == CODE_BLOCK_MOST_INSTRUCTIONS ||
	    made->references + references_of(instruction) > CODE_BLOCK_MOST_REFERENCES)
		return false;
	if (is_relative(instruction) && !can_be_moved(&instruction->zydis)) {
		instruction->flow = FLOW_STEP;
		return false;
	}
	if (!choose_registers(made, used, relative))
		return false;
	made->used = used;
	made->relative = relative;
	made->references += references_of(instruction);
	made->records += records_of(instruction);
	made->count++;
	made->past = instruction->address + instruction->length;
	return true;
}

/* Decode up to where the block ends.  Returns what comes next there: FLOW_ON if it was only cut. */
static enum flow select_instructions(struct translation *made)
{
	uint64_t address = made->address;

	for (;;) {
		struct instruction *instruction = &made->instructions[made->count];
		uint8_t bytes[16];
		size_t have = code_cache_fetch(made->translator, made->copy, address, bytes);

		if (!have || !instruction_decode(instruction, bytes, have, address))
			return FLOW_REFUSE;
		if (!take(made, instruction))
			return made->count && instruction->flow != FLOW_STEP &&
			       instruction->flow != FLOW_REFUSE ? FLOW_ON : instruction->flow;
		if (instruction->flow != FLOW_ON)
			return instruction->flow;
		address = made->past;
	}
}

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

	if (!is_relative(instruction)) {
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

/* Write its code; references and records are counted again. */
static int emit_block(struct translation *made, enum flow flow, uint32_t number, struct ahead *ahead)
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

/* The block's record, in one piece of memory. */
static struct cached_block *keep(const struct translation *made, uint32_t offset, uint32_t number)
{
	const size_t slots = made->references * sizeof(struct slot);
	const size_t instructions = made->count * sizeof(struct code_instruction);
	const size_t references = made->references * sizeof(struct code_reference);
	const size_t starts = made->emitted ? made->count * sizeof(uint16_t) : 0;
	struct cached_block *block =
		malloc(sizeof(*block) + slots + instructions + references + starts);
	struct code_instruction *list;
	struct code_reference *copied;

	if (!block)
		return NULL;
	block->slots = (struct slot *)(block + 1);
	list = (struct code_instruction *)(block->slots + made->references);
	copied = (struct code_reference *)(list + made->count);
	if (slots) {
		memcpy(block->slots, made->slots, slots);
		memcpy(copied, made->made, references);
	}
	for (unsigned i = 0; i < made->count; i++) {
		list[i].address = made->instructions[i].address;
		list[i].length = made->instructions[i].length;
	}
	block->starts = NULL;
	if (starts) {
		block->starts = (uint16_t *)(copied + made->references);
		memcpy(block->starts, made->starts, starts);
	}
	block->body = made->body;
	block->code = (struct code_block){
		.address = made->address, .past = made->past, .target = made->target,
		.number = number, .end = made->end,
		.instruction_count = (uint8_t)made->count,
		.reference_count = (uint8_t)made->references,
		.instructions = list, .references = copied,
	};
	block->offset = offset;
	block->first = (uint8_t)made->first;
	block->second = (uint8_t)made->second;
	block->records = (uint8_t)made->records;
	block->plain = true;
	for (unsigned i = 0; i < made->references; i++)
		block->plain = block->plain && made->slots[i].source == SLOT_RECORD;
	return block;
}

/* Nothing of it is in the stream: an int3 says what it is. */
static int emit_exit(struct translation *made, enum exit_kind kind)
{
	const struct code_exit code_exit = { .kind = kind, .target = made->address };
	const uint32_t at = made->emitter.used;

	emit_u8(&made->emitter, INT3);
	return code_cache_add_exit(made->translator, at, &code_exit);
}

static int emit_any(struct translation *made, uint32_t number, struct ahead *ahead)
{
	struct translator *translator = made->translator;
	enum flow flow;

	if (vdso_is_clock(translator, made->address)) {
		made->past = made->address + 1;
		return emit_exit(made, EXIT_CLOCK);
	}
	flow = select_instructions(made);
	if (made->count)
		return emit_block(made, flow, number, ahead);
	made->past = made->address + 1;
	if (flow != FLOW_STEP) {
		/* Too many registers for ours: never seen, and stepped as well. */
		flow = flow == FLOW_REFUSE ? FLOW_REFUSE : FLOW_STEP;
	}
	if (flow == FLOW_REFUSE)
		return emit_exit(made, EXIT_REFUSE);
	made->count = 1;
	made->references = step_references(&made->instructions[0], made->made);
	made->end = ENDS_STEP;
	made->past = made->address + made->instructions[0].length;
	add_ahead(ahead, made->past);
	return emit_exit(made, EXIT_STEP);
}

static struct cached_block *translate_one(struct translator *translator, const struct copy *copy,
					  uint64_t address, struct ahead *ahead)
{
	/* Too large for the stack; there is one thread. */
	static struct translation made;
	const uint32_t number = (uint32_t)translator->count, offset = translator->used;
	const struct watcher *watcher = translator->watcher;
	struct cached_block *block;

	made.translator = translator;
	made.copy = copy;
	made.emitter = (struct emitter){ translator->code, offset };
	made.address = made.past = address;
	made.count = made.references = made.records = 0;
	made.used = 0;
	made.relative = made.emitted = false;
	made.target = 0;
	made.end = ENDS_CUT;
	if (emit_any(&made, number, ahead) < 0)
		return NULL;
	if (!made.count && code_cache_fetch(translator, copy, address, (uint8_t[16]){ 0 }) == 0) {
		errno = EFAULT;
		return NULL;
	}
	block = keep(&made, offset, number);
	if (!block)
		return NULL;
	translator->used = (made.emitter.used + 15) & ~15u;
	if (watcher && watcher->translated && made.count)
		block->code.watched =
			watcher->translated(watcher->context, &block->code, made.instructions);
	if (code_cache_add(translator, block) < 0)
		return NULL;
	return block;
}

struct cached_block *translate_code(struct translator *translator, const struct copy *copy,
			       uint64_t address)
{
	struct cached_block *block = address_map_get(&translator->by_address, address);
	struct ahead ahead = { .count = 0 };

	if (block)
		return block;
	block = translate_one(translator, copy, address, &ahead);
	for (unsigned i = 0; block && i < ahead.count; i++)
		if (!address_map_get(&translator->by_address, ahead.addresses[i]))
			translate_one(translator, copy, ahead.addresses[i], &ahead);
	return block;
}
