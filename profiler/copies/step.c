/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "step.h"

#include <cpuid.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "tracee.h"

/* Of the XSAVE image: legacy XMM registers; sizes of one register in each part. */
#define XSAVE_BYTES 8192u
#define XMM_OFFSET 160u
#define XMM_BYTES 16u
#define ZMM_HIGH_BYTES 32u
#define ZMM_BYTES 64u
enum { XSAVE_YMM = 2, XSAVE_MASKS = 5, XSAVE_ZMM_HIGH = 6, XSAVE_ZMM_16 = 7 };

/* Elements of a gather or scatter. */
struct elements {
	const ZydisDecodedOperand *memory;
	int mask;		/* number of the mask register; of AVX2: of a vector register */
	bool vector_mask;
	unsigned count;
	unsigned index_bytes, bytes;
	bool stores;
};

static uint64_t value_of(const struct user_regs_struct *r, int number)
{
	const unsigned long long values[] = {
		r->rax, r->rcx, r->rdx, r->rbx, r->rsp, r->rbp, r->rsi, r->rdi,
		r->r8, r->r9, r->r10, r->r11, r->r12, r->r13, r->r14, r->r15, r->rip,
	};

	return number >= 0 ? values[number] : 0;
}

static unsigned vector_bytes(ZydisRegister name)
{
	switch (ZydisRegisterGetClass(name)) {
	case ZYDIS_REGCLASS_ZMM: return 64;
	case ZYDIS_REGCLASS_YMM: return 32;
	case ZYDIS_REGCLASS_XMM: return 16;
	default: return 0;
	}
}

/* Do the indices have eight bytes?  The mnemonic's last but one letter says so. */
static bool has_wide_index(const ZydisDecodedInstruction *z)
{
	const char *name = ZydisMnemonicGetString(z->mnemonic);
	const size_t length = name ? strlen(name) : 0;
	/* vpgatherqd, vpscatterqq: the last but one; vgatherqps: the third to last. */
	const size_t from_end = length && name[length - 1] != 'd' && name[length - 1] != 'q' ? 3 :
				length > 1 && name[length - 2] == 'p' ? 3 : 2;

	return length >= from_end && name[length - from_end] == 'q';
}

/* False: it is neither. */
static bool find_elements(const struct instruction *instruction, struct elements *elements)
{
	const ZydisDecodedInstruction *z = &instruction->zydis;

	memset(elements, 0, sizeof(*elements));
	for (unsigned i = 0; i < z->operand_count; i++) {
		const ZydisDecodedOperand *operand = &instruction->zydis_operands[i];

		if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    operand->mem.type == ZYDIS_MEMOP_TYPE_VSIB)
			elements->memory = operand;
	}
	if (!elements->memory)
		return false;
	elements->index_bytes = has_wide_index(z) ? 8 : 4;
	elements->bytes = elements->memory->element_size / 8u;
	if (elements->bytes != 4 && elements->bytes != 8)
		elements->bytes = elements->index_bytes;
	elements->stores = elements->memory->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE;
	elements->vector_mask = z->encoding == ZYDIS_INSTRUCTION_ENCODING_VEX;
	elements->count = vector_bytes(elements->memory->mem.index) / elements->index_bytes;
	for (unsigned i = 0; i < z->operand_count; i++) {
		const ZydisDecodedOperand *operand = &instruction->zydis_operands[i];
		unsigned data;

		if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER)
			continue;
		if (ZydisRegisterGetClass(operand->reg.value) == ZYDIS_REGCLASS_MASK ||
		    (elements->vector_mask && i == 2))
			elements->mask = ZydisRegisterGetId(operand->reg.value);
		/* A narrower vector of data has fewer elements than the indices. */
		data = vector_bytes(operand->reg.value) / elements->bytes;
		if (data && data < elements->count && !(elements->vector_mask && i == 2))
			elements->count = data;
	}
	if (elements->count > STEP_MOST_REFERENCES)
		elements->count = STEP_MOST_REFERENCES;
	return true;
}

unsigned step_references(const struct instruction *instruction,
			 struct code_reference references[STEP_MOST_REFERENCES])
{
	struct elements elements;
	unsigned count = 0;

	if (find_elements(instruction, &elements)) {
		for (; count < elements.count; count++)
			references[count] = (struct code_reference){
				.bytes = (uint16_t)elements.bytes,
				.kind = elements.stores ? REFERENCE_STORE : REFERENCE_LOAD,
			};
		return count;
	}
	for (unsigned i = 0; i < instruction->operand_count; i++) {
		const struct memory_operand *operand = &instruction->operands[i];

		references[count++] = (struct code_reference){ .bytes = operand->bytes,
							       .kind = operand->kind };
		if (instruction->repeats)
			references[count++] =
				(struct code_reference){ .kind = REFERENCE_LENGTH };
	}
	return count;
}

/* Where a part of the XSAVE image is; 0: the processor does not have it. */
static unsigned part_offset(unsigned part)
{
	unsigned size, offset, c, d;

	__cpuid_count(0xd, part, size, offset, c, d);
	return size ? offset : 0;
}

static void copy_vector(const uint8_t *image, unsigned number, uint8_t vector[ZMM_BYTES])
{
	const unsigned ymm = part_offset(XSAVE_YMM), high = part_offset(XSAVE_ZMM_HIGH);

	memset(vector, 0, ZMM_BYTES);
	if (number >= 16) {
		memcpy(vector, image + part_offset(XSAVE_ZMM_16) + ZMM_BYTES * (number - 16),
		       ZMM_BYTES);
		return;
	}
	memcpy(vector, image + XMM_OFFSET + XMM_BYTES * number, XMM_BYTES);
	if (ymm)
		memcpy(vector + 16, image + ymm + XMM_BYTES * number, XMM_BYTES);
	if (high)
		memcpy(vector + 32, image + high + ZMM_HIGH_BYTES * number, ZMM_HIGH_BYTES);
}

static bool is_made(const struct elements *elements, const uint8_t *image, unsigned element)
{
	uint8_t vector[ZMM_BYTES];
	uint64_t mask = 0;

	if (elements->vector_mask) {
		copy_vector(image, (unsigned)elements->mask, vector);
		/* The sign of the element. */
		return vector[(element + 1) * elements->bytes - 1] & 0x80u;
	}
	memcpy(&mask, image + part_offset(XSAVE_MASKS) + 8u * (unsigned)elements->mask, sizeof(mask));
	return mask >> element & 1u;
}

static int element_addresses(const struct copy *copy, const struct elements *elements,
			     const struct user_regs_struct *registers, uint64_t *addresses)
{
	const ZydisDecodedOperand *memory = elements->memory;
	uint8_t image[XSAVE_BYTES] = { 0 }, indices[ZMM_BYTES];
	struct iovec state = { image, sizeof(image) };
	uint64_t base = (uint64_t)memory->mem.disp.value;

	if (ptrace(PTRACE_GETREGSET, copy->pid, (void *)(uintptr_t)NT_X86_XSTATE, &state) < 0)
		return -1;
	if (memory->mem.base != ZYDIS_REGISTER_NONE)
		base += value_of(registers, ZydisRegisterGetId(memory->mem.base));
	if (memory->mem.segment == ZYDIS_REGISTER_FS)
		base += registers->fs_base;
	copy_vector(image, (unsigned)ZydisRegisterGetId(memory->mem.index), indices);
	for (unsigned i = 0; i < elements->count; i++) {
		int64_t index = 0;

		if (elements->index_bytes == 8) {
			memcpy(&index, indices + 8 * i, 8);
		} else {
			int32_t narrow;

			memcpy(&narrow, indices + 4 * i, 4);
			index = narrow;
		}
		addresses[i] = is_made(elements, image, i) ?
				       base + (uint64_t)(index * memory->mem.scale) :
				       0;
	}
	return 0;
}

/* How far from its operand a bit is that a register numbers; it may be negative. */
static uint64_t bit_offset(const struct instruction *instruction,
			   const struct user_regs_struct *registers)
{
	const ZydisRegister name = instruction->zydis_operands[1].reg.value;
	const uint64_t value = value_of(registers, ZydisRegisterGetId(name));

	switch (instruction->operands[0].bytes) {
	case 2:
		return (uint64_t)((int64_t)(int16_t)value >> 4) * 2;
	case 4:
		return (uint64_t)((int64_t)(int32_t)value >> 5) * 4;
	default:
		return (uint64_t)((int64_t)value >> 6) * 8;
	}
}

static uint64_t address_of(const struct instruction *instruction,
			   const struct memory_operand *operand,
			   const struct user_regs_struct *registers)
{
	uint64_t address = (uint64_t)operand->displacement;

	address += value_of(registers, operand->base);
	if (operand->base == REGISTER_RIP)
		address += instruction->length;
	if (operand->index >= 0)
		address += value_of(registers, operand->index) * operand->scale;
	/* AL, of XLAT, is no index that Zydis knows. */
	if (instruction->zydis.mnemonic == ZYDIS_MNEMONIC_XLAT)
		address = registers->rbx + (registers->rax & 0xffu);
	if (instruction_has_bit_offset(instruction))
		address += bit_offset(instruction, registers);
	if (instruction->zydis.mnemonic == ZYDIS_MNEMONIC_CLZERO)
		address &= ~(uint64_t)(operand->bytes - 1u);
	if (operand->narrow)
		address = (uint32_t)address;
	return operand->fs ? address + registers->fs_base : address;
}

/* Returns 0, a signal, or -1. */
static int execute(const struct copy *copy, struct user_regs_struct *registers)
{
	int status;

	if (ptrace(PTRACE_SINGLESTEP, copy->pid, NULL, NULL) < 0 ||
	    tracee_wait(copy->pid, 0, &status) < 0)
		return -1;
	if (!WIFSTOPPED(status)) {
		errno = ESRCH;
		return -1;
	}
	if (WSTOPSIG(status) != SIGTRAP || TRACEE_EVENT(status))
		return WSTOPSIG(status);
	return ptrace(PTRACE_GETREGS, copy->pid, NULL, registers) < 0 ? -1 : 0;
}

/* The trap flag, which a step sets, is none of the program's, but PUSHF stores it. */
static int clear_pushed_trap_flag(const struct copy *copy, const struct user_regs_struct *registers)
{
	uint8_t flags;

	if (copy_read(copy, registers->rsp + 1, &flags, 1) < 0)
		return -1;
	flags &= 0xfeu;
	return copy_write(copy, registers->rsp + 1, &flags, 1);
}

static bool pushes_flags(const struct instruction *instruction)
{
	return instruction->zydis.mnemonic == ZYDIS_MNEMONIC_PUSHF ||
	       instruction->zydis.mnemonic == ZYDIS_MNEMONIC_PUSHFQ;
}

/* Each iteration of a repeated instruction is a step. */
static int execute_repeated(const struct copy *copy, const struct instruction *instruction,
			    struct user_regs_struct *registers, uint64_t *addresses)
{
	const uint64_t here = registers->rip;
	int rc;

	do
		rc = execute(copy, registers);
	while (rc == 0 && registers->rip == here);
	if (rc != 0)
		return rc;
	for (unsigned i = 0; i < instruction->operand_count; i++) {
		const struct memory_operand *operand = &instruction->operands[i];
		int64_t length = (int64_t)(address_of(instruction, operand, registers) -
					   addresses[2 * i]);

		if (length < 0) {
			addresses[2 * i] += (uint64_t)length + operand->bytes;
			length = -length;
		}
		addresses[2 * i + 1] = (uint64_t)length;
	}
	return 0;
}

int step(const struct copy *copy, const struct instruction *instruction,
	 struct user_regs_struct *registers, uint64_t addresses[STEP_MOST_REFERENCES])
{
	const uint64_t here = registers->rip;
	struct elements elements;
	int rc;

	if (find_elements(instruction, &elements)) {
		if (element_addresses(copy, &elements, registers, addresses) < 0)
			return -1;
		/* It may trap halfway, with what is left in its mask. */
		do
			rc = execute(copy, registers);
		while (rc == 0 && registers->rip == here);
		return rc;
	}
	for (unsigned i = 0; i < instruction->operand_count; i++)
		addresses[instruction->repeats ? 2 * i : i] =
			address_of(instruction, &instruction->operands[i], registers);
	if (instruction->repeats)
		return execute_repeated(copy, instruction, registers, addresses);
	rc = execute(copy, registers);
	return rc == 0 && pushes_flags(instruction) ? clear_pushed_trap_flag(copy, registers) : rc;
}
