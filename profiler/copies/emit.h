/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The few instructions that are added to the program's code, encoded.  None changes flags. */
#ifndef TLBCOST_COPIES_EMIT_H
#define TLBCOST_COPIES_EMIT_H

#include <stddef.h>
#include <stdint.h>

#include "instruction.h"

/* Where code is being written; the caller has made sure of space. */
struct emitter {
	uint8_t *code;
	uint32_t used;
};

void emit_bytes(struct emitter *emitter, const void *bytes, size_t count);
void emit_u8(struct emitter *emitter, unsigned byte);
void emit_u32(struct emitter *emitter, uint32_t value);

/* Between a 64-bit register and the word at this offset of the area. */
void emit_save(struct emitter *emitter, uint32_t offset, int from);
void emit_restore(struct emitter *emitter, int to, uint32_t offset);

/* to = from; to = value */
void emit_move(struct emitter *emitter, int to, int from);
void emit_constant(struct emitter *emitter, int to, uint64_t value);

/* to = the operand's address, without the FS base; not for RIP-relative ones. */
void emit_address(struct emitter *emitter, int to, const struct memory_operand *operand);
/* to = the eight bytes that it names; not for RIP-relative ones. */
void emit_load(struct emitter *emitter, int to, const struct memory_operand *operand);
/* base[displacement] = from; to = base + displacement */
void emit_store_at(struct emitter *emitter, int base, int32_t displacement, int from);
void emit_add(struct emitter *emitter, int to, int base, int32_t displacement);
/* base[0] = value, sign-extended to eight bytes */
void emit_store_constant(struct emitter *emitter, int base, int32_t value);

void emit_push(struct emitter *emitter, int reg);
void emit_pop(struct emitter *emitter, int reg);

/* A jump, or a conditional one, whose distance is written later: returns where that is. */
uint32_t emit_jump(struct emitter *emitter);
uint32_t emit_branch(struct emitter *emitter, unsigned condition);
/* Jump to the code at this offset. */
void emit_jump_to(struct emitter *emitter, uint32_t offset);

/*
 * Jump to the code of the target in `target`.  `first` and `second` are the block's registers,
 * restored in between; `target` is one of these.
 */
void emit_indirect(struct emitter *emitter, int target, int first, int second);

#endif
