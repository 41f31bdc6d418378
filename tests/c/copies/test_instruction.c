/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Are an instruction's references and its flow what the manual says? */
#include "check.h"

#include <stdint.h>
#include <string.h>

#include "code_block.h"
#include "instruction.h"

#define ADDRESS UINT64_C(0x401000)

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R15 = 15, NONE = REGISTER_NONE };
enum { LOAD = REFERENCE_LOAD, STORE = REFERENCE_STORE, MODIFY = REFERENCE_MODIFY };

struct expected_operand {
	int base, index;
	unsigned scale;
	int64_t displacement;
	unsigned bytes;
	int kind;
};

struct expected {
	const char *text, *code;	/* code: bytes, ends with the string */
	size_t length;
	enum flow flow;
	unsigned count;
	struct expected_operand operands[2];
};

#define CODE(s) s, sizeof(s) - 1

static const struct expected accesses[] = {
	{ "mov rax,[rbx+rcx*8+16]", CODE("\x48\x8b\x44\xcb\x10"), FLOW_ON, 1,
	  { { RBX, RCX, 8, 16, 8, LOAD } } },
	{ "mov [r15-1],al", CODE("\x41\x88\x47\xff"), FLOW_ON, 1,
	  { { R15, NONE, 1, -1, 1, STORE } } },
	{ "add dword [rax],1", CODE("\x83\x00\x01"), FLOW_ON, 1,
	  { { RAX, NONE, 1, 0, 4, MODIFY } } },
	{ "cmp word [rsi],0", CODE("\x66\x83\x3e\x00"), FLOW_ON, 1,
	  { { RSI, NONE, 1, 0, 2, LOAD } } },
	{ "mov eax,[rip+0x100]", CODE("\x8b\x05\x00\x01\x00\x00"), FLOW_ON, 1,
	  { { REGISTER_RIP, NONE, 1, 0x100, 4, LOAD } } },
	{ "movabs rax,[0x1122334455]", CODE("\x48\xa1\x55\x44\x33\x22\x11\x00\x00\x00"), FLOW_ON,
	  1, { { NONE, NONE, 1, INT64_C(0x1122334455), 8, LOAD } } },
	{ "push rax", CODE("\x50"), FLOW_ON, 1, { { RSP, NONE, 1, -8, 8, STORE } } },
	{ "push ax", CODE("\x66\x50"), FLOW_ON, 1, { { RSP, NONE, 1, -2, 2, STORE } } },
	{ "pop rax", CODE("\x58"), FLOW_ON, 1, { { RSP, NONE, 1, 0, 8, LOAD } } },
	{ "push [rsp+8]", CODE("\xff\x74\x24\x08"), FLOW_ON, 2,
	  { { RSP, NONE, 1, 8, 8, LOAD }, { RSP, NONE, 1, -8, 8, STORE } } },
	{ "pop [rsp+8]", CODE("\x8f\x44\x24\x08"), FLOW_ON, 2,
	  { { RSP, NONE, 1, 16, 8, STORE }, { RSP, NONE, 1, 0, 8, LOAD } } },
	{ "pushfq", CODE("\x9c"), FLOW_ON, 1, { { RSP, NONE, 1, -8, 8, STORE } } },
	{ "leave", CODE("\xc9"), FLOW_ON, 1, { { RBP, NONE, 1, 0, 8, LOAD } } },
	{ "movsq", CODE("\x48\xa5"), FLOW_ON, 2,
	  { { RDI, NONE, 1, 0, 8, STORE }, { RSI, NONE, 1, 0, 8, LOAD } } },
	{ "xchg [rdi],rax", CODE("\x48\x87\x07"), FLOW_ON, 1,
	  { { RDI, NONE, 1, 0, 8, MODIFY } } },
	{ "lock cmpxchg16b [rdi]", CODE("\xf0\x48\x0f\xc7\x0f"), FLOW_ON, 1,
	  { { RDI, NONE, 1, 0, 16, MODIFY } } },
	{ "fxsave [rdi]", CODE("\x0f\xae\x07"), FLOW_ON, 1, { { RDI, NONE, 1, 0, 512, STORE } } },
	{ "fld tbyte [rdi]", CODE("\xdb\x2f"), FLOW_ON, 1, { { RDI, NONE, 1, 0, 10, LOAD } } },
	{ "movdqu xmm0,[rdi]", CODE("\xf3\x0f\x6f\x07"), FLOW_ON, 1,
	  { { RDI, NONE, 1, 0, 16, LOAD } } },
	{ "vmovdqu ymm0,[rdi]", CODE("\xc5\xfe\x6f\x07"), FLOW_ON, 1,
	  { { RDI, NONE, 1, 0, 32, LOAD } } },
	{ "vmovdqu64 [rdi+64],zmm0: displacement scaled",
	  CODE("\x62\xf1\xfe\x48\x7f\x47\x01"), FLOW_ON, 1, { { RDI, NONE, 1, 64, 64, STORE } } },
	{ "vmovdqu32 [rdi]{k1},zmm0: as if unmasked",
	  CODE("\x62\xf1\x7e\x49\x7f\x07"), FLOW_ON, 1, { { RDI, NONE, 1, 0, 64, STORE } } },
	{ "vaddps zmm0,zmm0,[rdi]{1to16}", CODE("\x62\xf1\x7c\x58\x58\x07"), FLOW_ON, 1,
	  { { RDI, NONE, 1, 0, 4, LOAD } } },
	{ "call +0", CODE("\xe8\x00\x00\x00\x00"), FLOW_CALL, 1,
	  { { RSP, NONE, 1, -8, 8, STORE } } },
	{ "call [rax]", CODE("\xff\x10"), FLOW_CALL_INDIRECT, 2,
	  { { RAX, NONE, 1, 0, 8, LOAD }, { RSP, NONE, 1, -8, 8, STORE } } },
	{ "jmp [rip+8]", CODE("\xff\x25\x08\x00\x00\x00"), FLOW_JUMP_INDIRECT, 1,
	  { { REGISTER_RIP, NONE, 1, 8, 8, LOAD } } },
	{ "ret", CODE("\xc3"), FLOW_RETURN, 1, { { RSP, NONE, 1, 0, 8, LOAD } } },
	{ "ret 16", CODE("\xc2\x10\x00"), FLOW_RETURN, 1, { { RSP, NONE, 1, 0, 8, LOAD } } },
};

static bool operand_is(const struct memory_operand *operand,
		       const struct expected_operand *expected)
{
	return operand->base == expected->base && operand->index == expected->index &&
	       operand->scale == expected->scale && operand->bytes == expected->bytes &&
	       operand->displacement == expected->displacement && operand->kind == expected->kind &&
	       !operand->fs && !operand->narrow;
}

TEST(memory_that_instructions_access)
{
	for (size_t i = 0; i < sizeof(accesses) / sizeof(accesses[0]); i++) {
		const struct expected *expected = &accesses[i];
		struct instruction it;
		bool right;

		CHECK(instruction_decode(&it, (const uint8_t *)expected->code, expected->length,
					 ADDRESS));
		right = it.length == expected->length && it.flow == expected->flow &&
			it.operand_count == expected->count && !it.repeats;
		for (unsigned j = 0; right && j < expected->count; j++)
			right = operand_is(&it.operands[j], &expected->operands[j]);
		if (!right)
			fprintf(stderr, "%s: flow %u, %u operands, first %d %d %u %lld %u %u\n",
				expected->text, it.flow, it.operand_count, it.operands[0].base,
				it.operands[0].index, it.operands[0].scale,
				(long long)it.operands[0].displacement, it.operands[0].bytes,
				it.operands[0].kind);
		CHECK(right);
	}
}

static const struct { const char *text, *code; size_t length; enum flow flow; } flows[] = {
	{ "je", CODE("\x74\x10"), FLOW_BRANCH },
	{ "jmp", CODE("\xeb\x10"), FLOW_JUMP },
	{ "jmp rax", CODE("\xff\xe0"), FLOW_JUMP_INDIRECT },
	{ "syscall", CODE("\x0f\x05"), FLOW_SYSTEM_CALL },
	{ "loop", CODE("\xe2\x10"), FLOW_STEP },
	{ "jrcxz", CODE("\xe3\x10"), FLOW_STEP },
	{ "xlat", CODE("\xd7"), FLOW_STEP },
	{ "enter", CODE("\xc8\x10\x00\x00"), FLOW_STEP },
	{ "popfq", CODE("\x9d"), FLOW_STEP },
	{ "bts [rdi],rax", CODE("\x48\x0f\xab\x07"), FLOW_STEP },
	{ "bts [rdi],5", CODE("\x0f\xba\x2f\x05"), FLOW_ON },
	{ "rep movsb with 32-bit addresses", CODE("\x67\xf3\xa4"), FLOW_STEP },
	{ "rep movsb fs:", CODE("\x64\xf3\xa4"), FLOW_STEP },
	{ "xchg r8,rax with a prefix", CODE("\xf3\x4d\x90"), FLOW_STEP },
	{ "clzero", CODE("\x0f\x01\xfc"), FLOW_STEP },
	{ "vpgatherdd ymm0,[rdi+ymm1*4],ymm2", CODE("\xc4\xe2\x6d\x90\x04\x8f"), FLOW_STEP },
	{ "vpscatterdd [rdi+zmm1*4]{k1},zmm0", CODE("\x62\xf2\x7d\x49\xa0\x04\x8f"), FLOW_STEP },
	{ "maskmovdqu", CODE("\x66\x0f\xf7\xc1"), FLOW_STEP },
	{ "int3", CODE("\xcc"), FLOW_REFUSE },
	{ "int 0x80", CODE("\xcd\x80"), FLOW_REFUSE },
	{ "ud2", CODE("\x0f\x0b"), FLOW_REFUSE },
	{ "iretq", CODE("\x48\xcf"), FLOW_REFUSE },
	{ "far ret", CODE("\xcb"), FLOW_REFUSE },
	{ "xbegin", CODE("\xc7\xf8\x00\x00\x00\x00"), FLOW_REFUSE },
	{ "mov eax,gs:[0]", CODE("\x65\x8b\x04\x25\x00\x00\x00\x00"), FLOW_REFUSE },
	{ "wrfsbase rax", CODE("\xf3\x48\x0f\xae\xd0"), FLOW_REFUSE },
};

TEST(where_control_goes)
{
	for (size_t i = 0; i < sizeof(flows) / sizeof(flows[0]); i++) {
		struct instruction it;

		CHECK(instruction_decode(&it, (const uint8_t *)flows[i].code, flows[i].length,
					 ADDRESS));
		if (it.flow != flows[i].flow)
			fprintf(stderr, "%s: flow %u\n", flows[i].text, it.flow);
		CHECK(it.flow == flows[i].flow);
		if (it.flow == FLOW_BRANCH || it.flow == FLOW_JUMP)
			CHECK(it.target == ADDRESS + 2 + 0x10);
	}
}

static const struct { const char *text, *code; size_t length; } silent[] = {
	{ "lea rax,[rdi+8]", CODE("\x48\x8d\x47\x08") },
	{ "nop [rax+rax]", CODE("\x0f\x1f\x44\x00\x00") },
	{ "prefetcht0 [rdi]", CODE("\x0f\x18\x0f") },
	{ "prefetchw [rdi]", CODE("\x0f\x0d\x0f") },
	{ "clflush [rdi]", CODE("\x0f\xae\x3f") },
	{ "clflushopt [rdi]", CODE("\x66\x0f\xae\x3f") },
	{ "endbr64", CODE("\xf3\x0f\x1e\xfa") },
	{ "add rax,rbx", CODE("\x48\x01\xd8") },
};

TEST(instructions_without_references)
{
	for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++) {
		struct instruction it;

		CHECK(instruction_decode(&it, (const uint8_t *)silent[i].code, silent[i].length,
					 ADDRESS));
		if (it.operand_count || it.flow != FLOW_ON)
			fprintf(stderr, "%s: flow %u, %u operands\n", silent[i].text, it.flow,
				it.operand_count);
		CHECK(!it.operand_count && it.flow == FLOW_ON);
	}
}

TEST(segments_32_bit_addresses_registers_in_use)
{
	struct instruction it;

	/* mov rax,fs:[0x28] */
	CHECK(instruction_decode(&it, (const uint8_t *)"\x64\x48\x8b\x04\x25\x28\x00\x00\x00", 9,
				 ADDRESS));
	CHECK(it.operand_count == 1 && it.operands[0].fs && it.operands[0].base == NONE &&
	      it.operands[0].displacement == 0x28);
	/* mov eax,[edi+ecx] */
	CHECK(instruction_decode(&it, (const uint8_t *)"\x67\x8b\x04\x0f", 4, ADDRESS));
	CHECK(it.operand_count == 1 && it.operands[0].narrow && it.operands[0].base == RDI &&
	      it.operands[0].index == RCX);
	/* Registers that it uses are not free for our own code. */
	CHECK((it.registers & (1u << RAX | 1u << RCX | 1u << RDI)) ==
	      (1u << RAX | 1u << RCX | 1u << RDI));
}

TEST(string_instructions_that_repeat)
{
	struct instruction it;

	/* rep movsb */
	CHECK(instruction_decode(&it, (const uint8_t *)"\xf3\xa4", 2, ADDRESS));
	CHECK(it.repeats && it.operand_count == 2);
	/* repne scasb */
	CHECK(instruction_decode(&it, (const uint8_t *)"\xf2\xae", 2, ADDRESS));
	CHECK(it.repeats && it.operand_count == 1 && it.operands[0].kind == LOAD);
	/* The prefix is part of another instruction: popcnt eax,[rdi]. */
	CHECK(instruction_decode(&it, (const uint8_t *)"\xf3\x0f\xb8\x07", 4, ADDRESS));
	CHECK(!it.repeats && it.operand_count == 1);
}

TEST(what_is_no_instruction)
{
	struct instruction it;

	/* cut off */
	CHECK(!instruction_decode(&it, (const uint8_t *)"\x48\x8b", 2, ADDRESS));
	/* not in 64-bit mode */
	CHECK(!instruction_decode(&it, (const uint8_t *)"\x06", 1, ADDRESS));
	CHECK(!instruction_decode(&it, (const uint8_t *)"", 0, ADDRESS));
}

CHECK_MAIN
