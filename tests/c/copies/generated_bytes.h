/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Random bytes that may be an instruction, and which ones cannot be used. */
#ifndef TLBCOST_TEST_GENERATED_BYTES_H
#define TLBCOST_TEST_GENERATED_BYTES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "instruction.h"

struct maker {
	uint64_t random, world;
	bool x87;		/* else instructions that save its state: not where it was */
	unsigned pointers;	/* used */
};

static inline uint64_t draw(struct maker *maker)
{
	uint64_t z = maker->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

static inline unsigned below(struct maker *maker, unsigned limit)
{
	return (unsigned)(draw(maker) % limit);
}

/* What is rare among random bytes: prefixes may come before, the rest is random. */
struct favourite {
	uint8_t count, bytes[6], random[6];	/* random: which bits are */
};

static const struct favourite favourites[] = {
	{ 1, { 0x70 }, { 0x0f } },			/* jcc */
	{ 2, { 0x0f, 0x80 }, { 0, 0x0f } },		/* jcc, far */
	{ 1, { 0xe0 }, { 0x03 } },			/* loopne, loope, loop, jrcxz */
	{ 1, { 0xe8 }, { 0x03 } },			/* call, jmp */
	{ 1, { 0xc2 }, { 0x01 } },			/* ret */
	{ 2, { 0xff, 0xd0 }, { 0, 0x07 } },		/* call register */
	{ 2, { 0xff, 0xe0 }, { 0, 0x07 } },		/* jmp register */
	{ 2, { 0xff, 0x10 }, { 0, 0xc7 } },		/* call, by memory mostly */
	{ 2, { 0xff, 0x20 }, { 0, 0xc7 } },		/* jmp */
	{ 2, { 0xff, 0x30 }, { 0, 0xc7 } },		/* push */
	{ 2, { 0x8f, 0x00 }, { 0, 0xc7 } },		/* pop */
	{ 2, { 0x8f, 0x44 }, { 0, 0x80 } },		/* pop, with a base */
	{ 1, { 0x50 }, { 0x0f } },			/* push, pop of a register */
	{ 1, { 0x9c }, { 0x01 } },			/* pushf, popf */
	{ 1, { 0xd7 }, { 0 } },				/* xlat */
	{ 1, { 0xc8 }, { 0x01 } },			/* enter, leave */
	{ 1, { 0xfc }, { 0x01 } },			/* cld, std */
	{ 2, { 0xf2, 0xa4 }, { 0x01, 0x03 } },		/* repeated strings */
	{ 2, { 0xf2, 0xaa }, { 0x01, 0x07 } },
	{ 3, { 0xf2, 0x48, 0xa4 }, { 0x01, 0x02, 0x03 } },
	{ 3, { 0xf2, 0x48, 0xaa }, { 0x01, 0x02, 0x07 } },
	{ 2, { 0x0f, 0xa3 }, { 0, 0x08 } },		/* bt, bts */
	{ 2, { 0x0f, 0xb3 }, { 0, 0x08 } },		/* btr, btc */
	{ 2, { 0x0f, 0xc7 }, { 0, 0 } },		/* cmpxchg8b and others */
	{ 3, { 0x0f, 0x01, 0xfc }, { 0, 0, 0 } },	/* clzero */
	{ 3, { 0x66, 0x0f, 0xf7 }, { 0, 0, 0 } },	/* maskmovdqu */
	/* Gathers of AVX2; maskmov and gathers of AVX-512, scatters. */
	{ 6, { 0xc4, 0x02, 0x01, 0x90, 0x04, 0x00 }, { 0, 0xe0, 0xfc, 0x03, 0x38, 0xff } },
	{ 4, { 0xc4, 0x02, 0x01, 0x2c }, { 0, 0xe0, 0x7c, 0x03 } },
	{ 4, { 0xc4, 0x02, 0x01, 0x8c }, { 0, 0xe0, 0xfc, 0x02 } },
	{ 6, { 0x62, 0x02, 0x7d, 0x08, 0x90, 0x04 }, { 0, 0xf0, 0x80, 0x67, 0x03, 0x38 } },
	{ 6, { 0x62, 0x02, 0x7d, 0x08, 0xa0, 0x04 }, { 0, 0xf0, 0x80, 0x67, 0x03, 0x38 } },
	{ 5, { 0x62, 0x02, 0x7d, 0x08, 0x88 }, { 0, 0xf0, 0x80, 0xe7, 0x03 } },
};

static inline void draw_favourite(struct maker *maker, uint8_t bytes[16])
{
	static const uint8_t prefixes[] = { 0x64, 0x67, 0x66 };
	const struct favourite *one =
		&favourites[below(maker, sizeof(favourites) / sizeof(favourites[0]))];
	unsigned at = 0;

	if (below(maker, 8) == 0)
		bytes[at++] = prefixes[below(maker, sizeof(prefixes))];
	if (one->bytes[0] != 0xc4 && one->bytes[0] != 0x62 && one->bytes[0] != 0xf2 &&
	    below(maker, 2))
		bytes[at++] = (uint8_t)(0x40 + below(maker, 16));
	for (unsigned i = 0; i < one->count; i++)
		bytes[at + i] = (uint8_t)(one->bytes[i] | (bytes[at + i] & one->random[i]));
}

/* Bytes that may be an instruction. */
static inline void draw_bytes(struct maker *maker, uint8_t bytes[16])
{
	static const uint8_t prefixes[] = { 0x66, 0xf2, 0xf3, 0x67, 0x64, 0xf0 };
	unsigned at = 0, map = below(maker, 16);

	for (unsigned i = 0; i < 16; i++)
		bytes[i] = (uint8_t)draw(maker);
	if (below(maker, 4) == 0) {
		draw_favourite(maker, bytes);
		return;
	}
	while (at < 3 && below(maker, 4) == 0)
		bytes[at++] = prefixes[below(maker, sizeof(prefixes))];
	if (map < 10 && below(maker, 2))
		bytes[at++] = (uint8_t)(0x40 + below(maker, 16));
	if (map >= 6)
		bytes[at] = map < 9 ? 0x0f : map < 10 ? 0xc5 : map < 13 ? 0xc4 : 0x62;
	if (map == 8)
		bytes[at + 1] = below(maker, 2) ? 0x38 : 0x3a;
	if (map >= 10 && map < 13)
		bytes[at + 1] = (uint8_t)((bytes[at + 1] & 0xe0) | (1 + below(maker, 3)));
	if (map >= 13) {
		bytes[at + 1] = (uint8_t)((bytes[at + 1] & 0xf0) | (1 + below(maker, 3)));
		bytes[at + 2] |= 4;
	}
}

/* FISTTP is of SSE3 by its set. */
static inline bool is_x87(const ZydisDecodedInstruction *z)
{
	return z->meta.isa_ext == ZYDIS_ISA_EXT_X87 || z->meta.isa_ext == ZYDIS_ISA_EXT_MMX ||
	       z->meta.category == ZYDIS_CATEGORY_X87_ALU;
}

static inline bool saves_x87(ZydisMnemonic mnemonic)
{
	switch (mnemonic) {
	case ZYDIS_MNEMONIC_FNSTENV:
	case ZYDIS_MNEMONIC_FNSAVE:
	case ZYDIS_MNEMONIC_FXSAVE:
	case ZYDIS_MNEMONIC_FXSAVE64:
		return true;
	default:
		return false;
	}
}

/* Processors differ in what a branch does with this prefix. */
static inline bool has_narrow_target(const struct instruction *it)
{
	const ZydisDecodedInstruction *z = &it->zydis;

	if (z->meta.branch_type == ZYDIS_BRANCH_TYPE_NONE || z->raw.rex.W)
		return false;
	for (unsigned i = 0; i < z->raw.prefix_count; i++)
		if (z->raw.prefixes[i].value == 0x66)
			return true;
	return false;
}

/* What differs from one execution to the next, waits, or leaves the world. */
static inline bool is_banned(const struct maker *maker, const struct instruction *it)
{
	const ZydisDecodedInstruction *z = &it->zydis;

	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_CPUID:
	case ZYDIS_MNEMONIC_RDTSC:
	case ZYDIS_MNEMONIC_RDTSCP:
	case ZYDIS_MNEMONIC_RDPID:
	case ZYDIS_MNEMONIC_RDPMC:
	case ZYDIS_MNEMONIC_RDPRU:
	case ZYDIS_MNEMONIC_RDRAND:
	case ZYDIS_MNEMONIC_RDSEED:
	case ZYDIS_MNEMONIC_XGETBV:
	case ZYDIS_MNEMONIC_XSAVE:	/* which registers are in use is up to the kernel, too */
	case ZYDIS_MNEMONIC_XSAVE64:
	case ZYDIS_MNEMONIC_XSAVEOPT:
	case ZYDIS_MNEMONIC_XSAVEOPT64:
	case ZYDIS_MNEMONIC_XSAVEC:
	case ZYDIS_MNEMONIC_XSAVEC64:
	case ZYDIS_MNEMONIC_SMSW:
	case ZYDIS_MNEMONIC_SGDT:
	case ZYDIS_MNEMONIC_SIDT:
	case ZYDIS_MNEMONIC_SLDT:
	case ZYDIS_MNEMONIC_STR:
	case ZYDIS_MNEMONIC_VMMCALL:
	case ZYDIS_MNEMONIC_VMCALL:
	case ZYDIS_MNEMONIC_MONITORX:
	case ZYDIS_MNEMONIC_MWAITX:
	case ZYDIS_MNEMONIC_MONITOR:
	case ZYDIS_MNEMONIC_MWAIT:
	case ZYDIS_MNEMONIC_TPAUSE:
	case ZYDIS_MNEMONIC_UMONITOR:
	case ZYDIS_MNEMONIC_UMWAIT:
	case ZYDIS_MNEMONIC_LSS:
	case ZYDIS_MNEMONIC_LFS:
	case ZYDIS_MNEMONIC_LGS:
		return true;
	default:
		break;
	}
	for (unsigned i = 0; i < z->operand_count; i++)
		if (it->zydis_operands[i].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		    ZydisRegisterGetClass(it->zydis_operands[i].reg.value) ==
			    ZYDIS_REGCLASS_SEGMENT &&
		    it->zydis_operands[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE)
			return true;
	if (has_narrow_target(it))
		return true;
	if (saves_x87(z->mnemonic))
		return maker->x87;
	return !maker->x87 && is_x87(z);
}

#endif
