/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Makes a piece of random code, by executing it. */
#ifndef TLBCOST_TEST_GENERATED_MAKE_H
#define TLBCOST_TEST_GENERATED_MAKE_H

#include "generated_run.h"

/* mov reg, value */
static inline int execute_move(struct run *run, int reg, uint64_t value)
{
	uint8_t bytes[16] = { (uint8_t)(0x48 + (reg >> 3)), (uint8_t)(0xb8 + (reg & 7)) };

	memcpy(bytes + 2, &value, sizeof(value));
	return execute_bytes(run, bytes);
}

/* A logical shift to the right leaves indices below 1024. */
static inline int execute_small_indices(struct run *run, ZydisRegister vector, bool wide)
{
	ZydisEncoderRequest request = { .machine_mode = ZYDIS_MACHINE_MODE_LONG_64,
					.mnemonic = wide ? ZYDIS_MNEMONIC_VPSRLQ :
							   ZYDIS_MNEMONIC_VPSRLD,
					.operand_count = 3 };
	uint8_t bytes[16] = { 0 };
	ZyanUSize length = sizeof(bytes);

	request.operands[0].type = request.operands[1].type = ZYDIS_OPERAND_TYPE_REGISTER;
	request.operands[0].reg.value = request.operands[1].reg.value = vector;
	request.operands[2].type = ZYDIS_OPERAND_TYPE_IMMEDIATE;
	request.operands[2].imm.u = wide ? 55 : 23;
	if (!ZYAN_SUCCESS(ZydisEncoderEncodeInstruction(&request, bytes, &length)))
		return 0;
	return execute_bytes(run, bytes);
}

/* Where it jumps to: some bytes further on, which are never executed. */
static inline uint64_t draw_target(struct run *run, uint64_t past)
{
	return past + below(&run->maker, 24);
}

static inline void patch(uint8_t *bytes, unsigned offset, unsigned bits, uint64_t value)
{
	memcpy(bytes + offset, &value, bits / 8);
}

/* The indices of this one have eight bytes. */
static inline bool has_wide_indices(const struct instruction *it)
{
	const char *name = ZydisMnemonicGetString(it->zydis.mnemonic);

	return strstr(name, "gatherq") || strstr(name, "scatterq");
}

/* What depends on where it is.  Returns 0, or -1. */
static inline int patch_bytes(struct run *run, uint8_t *bytes, const struct instruction *it,
			      const struct plan *plan)
{
	const ZydisDecodedInstruction *z = &it->zydis;
	const uint64_t past = run->now.registers.rip + it->length;
	const uint64_t target = draw_target(run, past);

	if (plan->absolute)
		patch(bytes, z->raw.disp.offset, z->raw.disp.size,
		      plan->absolute - (plan->relative ? past : 0));
	if (z->raw.imm[0].is_relative)
		patch(bytes, z->raw.imm[0].offset, z->raw.imm[0].size, target - past);
	if (z->mnemonic == ZYDIS_MNEMONIC_ENTER) {
		bytes[z->raw.imm[0].offset + 1] = 0;
		bytes[z->raw.imm[1].offset] &= 7;
	}
	if (plan->pointer < 0)
		return 0;
	run->pointers[plan->pointer] = target;
	run->maker.pointers = (unsigned)plan->pointer + 1;
	return copy_write(&run->copy, run->maker.world + POINTERS, run->pointers,
			  sizeof(run->pointers));
}

/* Returns as execute_bytes(). */
static inline int execute_planned(struct run *run, uint8_t *bytes, const struct instruction *it,
				  const struct plan *plan)
{
	const ZydisDecodedOperand *operand = &it->zydis_operands[0];
	int rc = 1;

	if (plan->indices != ZYDIS_REGISTER_NONE)
		rc = execute_small_indices(run, plan->indices, has_wide_indices(it));
	for (unsigned i = 0; i < plan->count && rc == 1; i++)
		rc = execute_move(run, plan->all[i].reg, plan->all[i].value);
	if (rc == 1 && (it->flow == FLOW_JUMP_INDIRECT || it->flow == FLOW_CALL_INDIRECT) &&
	    operand->type == ZYDIS_OPERAND_TYPE_REGISTER)
		rc = execute_move(run, number_of(operand->reg.value),
				  draw_target(run, run->now.registers.rip + 10 + it->length));
	if (rc != 1)
		return rc;
	return patch_bytes(run, bytes, it, plan) < 0 ? -1 : execute_bytes(run, bytes);
}

/* Returns as execute_bytes(). */
static inline int execute_random(struct run *run)
{
	uint8_t bytes[32];
	struct instruction it;
	struct plan plan;

	draw_bytes(&run->maker, bytes);
	/* There is more room in the code than that. */
	if (run->now.registers.rip - run->maker.world > CALL_AT - 512 ||
	    !instruction_decode(&it, bytes, 16, run->now.registers.rip) ||
	    run->maker.pointers == sizeof(run->pointers) / 8 ||
	    !plan_for(&run->maker, &plan, &run->now.registers, &it))
		return 0;
	return execute_planned(run, bytes, &it, &plan);
}

static inline void draw_registers(struct maker *maker, struct user_regs_struct *r)
{
	unsigned long long *const all[] = { &r->rax, &r->rcx, &r->rdx, &r->rbx, &r->rbp,
					    &r->rsi, &r->rdi, &r->r8,  &r->r9,	&r->r10,
					    &r->r11, &r->r12, &r->r13, &r->r14, &r->r15 };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		*all[i] = draw(maker) >> below(maker, 64);
}

/* All vector and mask registers; what is in use is at byte 512. */
static inline void draw_vectors(struct maker *maker, struct xstate *state)
{
	uint64_t in_use;

	memcpy(&in_use, state->image + 464, sizeof(in_use));
	in_use &= 0xe7;
	memcpy(state->image + 512, &in_use, sizeof(in_use));
	for (size_t i = 160; i < state->bytes; i++)
		if (i < 416 || i >= 576)
			state->image[i] = (uint8_t)draw(maker);
}

/* Returns 0; or -1: something is wrong, and printed. */
static inline int run_make(struct run *run, uint64_t seed, unsigned instructions,
			   struct forms *forms)
{
	struct maker *maker = &run->maker;
	uint8_t call[16] = { 0x0f, 0x05 };
	unsigned long most = forms->instructions + instructions;
	int rc = 0;

	memset(run, 0, sizeof(*run));
	run->forms = forms;
	maker->random = seed * UINT64_C(0xd1342543de82ef95);
	maker->world = below(maker, 2) ? WORLD_LOW : WORLD_HIGH;
	maker->x87 = below(maker, 2);
	memcpy(run->code, (void *)(uintptr_t)maker->world, CODE_BYTES);
	run->start.registers = traced_registers(maker->world);
	draw_registers(maker, &run->start.registers);
	for (size_t i = 0; i < ARENA_BYTES; i++)
		run->start.arena[i] = (uint8_t)draw(maker);
	if (traced_start(&run->copy, maker->world, &run->start.registers) < 0 ||
	    traced_get(&run->copy, &run->start.vectors) < 0)
		rc = -1;
	draw_vectors(maker, &run->start.vectors);
	if (rc == 0)
		rc = state_set(&run->copy, maker->world, &run->start);
	run->now = run->start;
	if (rc == 0)
		rc = state_get(&run->copy, maker->world, &run->now);
	for (unsigned long tried = 0; rc >= 0 && forms->instructions < most && tried < 100000; tried++)
		rc = execute_random(run);
	if (rc >= 0)
		rc = execute_move(run, 0, LAST_CALL);
	if (rc > 0) {
		memcpy(run->code + (run->now.registers.rip - maker->world), call, 2);
		/* A system call ends its block. */
		list_add(&run->list, (struct made){ run->now.registers.rip, 0, 0, EXECUTED });
	}
	copy_kill(&run->copy);
	if (rc <= 0)
		printf("# it could not be made up to its end, at %#llx\n", run->now.registers.rip);
	return rc > 0 ? 0 : -1;
}

#endif
