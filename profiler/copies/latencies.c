/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Classes of latencies that server cores of 2017 to 2024 have within a cycle or two of each other
 * (Skylake-X, Ice Lake, Sapphire Rapids, Zen 2 to Zen 4), after the tables of uops.info (Abel and
 * Reineke, ASPLOS 2019).  Where these differ the value is the Valgrind engine's.
 */
#include "latencies.h"

#include <stdbool.h>

#define INTEGER 1u
#define MULTIPLY 3u
#define DIVIDE 14u
#define COUNT_BITS 2u
#define FLOAT 4u
#define FLOAT_DIVIDE 13u
#define ROOT 18u
#define CONVERT 5u
#define MOVE_BETWEEN 3u		/* general and vector registers */
#define ACROSS_LANES 3u
#define CRYPTO 4u
#define STRING_COMPARE 10u	/* PCMPISTRI and its like */
#define X87_FUNCTION 80u
#define SERIAL 100u

static uint8_t vector(const ZydisDecodedInstruction *z)
{
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_MOVD: case ZYDIS_MNEMONIC_MOVQ:
	case ZYDIS_MNEMONIC_VMOVD: case ZYDIS_MNEMONIC_VMOVQ:
	case ZYDIS_MNEMONIC_PMOVMSKB: case ZYDIS_MNEMONIC_VPMOVMSKB:
	case ZYDIS_MNEMONIC_MOVMSKPS: case ZYDIS_MNEMONIC_MOVMSKPD:
	case ZYDIS_MNEMONIC_VMOVMSKPS: case ZYDIS_MNEMONIC_VMOVMSKPD:
	case ZYDIS_MNEMONIC_PEXTRB: case ZYDIS_MNEMONIC_PEXTRW: case ZYDIS_MNEMONIC_PEXTRD:
	case ZYDIS_MNEMONIC_PEXTRQ: case ZYDIS_MNEMONIC_VPEXTRB: case ZYDIS_MNEMONIC_VPEXTRW:
	case ZYDIS_MNEMONIC_VPEXTRD: case ZYDIS_MNEMONIC_VPEXTRQ:
	case ZYDIS_MNEMONIC_PINSRB: case ZYDIS_MNEMONIC_PINSRW: case ZYDIS_MNEMONIC_PINSRD:
	case ZYDIS_MNEMONIC_PINSRQ: case ZYDIS_MNEMONIC_VPINSRB: case ZYDIS_MNEMONIC_VPINSRW:
	case ZYDIS_MNEMONIC_VPINSRD: case ZYDIS_MNEMONIC_VPINSRQ:
	case ZYDIS_MNEMONIC_COMISS: case ZYDIS_MNEMONIC_COMISD:
	case ZYDIS_MNEMONIC_UCOMISS: case ZYDIS_MNEMONIC_UCOMISD:
	case ZYDIS_MNEMONIC_VCOMISS: case ZYDIS_MNEMONIC_VCOMISD:
	case ZYDIS_MNEMONIC_VUCOMISS: case ZYDIS_MNEMONIC_VUCOMISD:
	case ZYDIS_MNEMONIC_VPTEST: case ZYDIS_MNEMONIC_PTEST:
	case ZYDIS_MNEMONIC_KMOVB: case ZYDIS_MNEMONIC_KMOVW: case ZYDIS_MNEMONIC_KMOVD:
	case ZYDIS_MNEMONIC_KMOVQ:
		return MOVE_BETWEEN;
	case ZYDIS_MNEMONIC_VPERMD: case ZYDIS_MNEMONIC_VPERMQ: case ZYDIS_MNEMONIC_VPERMPS:
	case ZYDIS_MNEMONIC_VPERMPD: case ZYDIS_MNEMONIC_VPERM2F128:
	case ZYDIS_MNEMONIC_VPERM2I128: case ZYDIS_MNEMONIC_VINSERTF128:
	case ZYDIS_MNEMONIC_VINSERTI128: case ZYDIS_MNEMONIC_VEXTRACTF128:
	case ZYDIS_MNEMONIC_VEXTRACTI128: case ZYDIS_MNEMONIC_VBROADCASTSS:
	case ZYDIS_MNEMONIC_VBROADCASTSD:
		return ACROSS_LANES;
	case ZYDIS_MNEMONIC_PMULLD: case ZYDIS_MNEMONIC_VPMULLD: case ZYDIS_MNEMONIC_PMULLW:
	case ZYDIS_MNEMONIC_VPMULLW: case ZYDIS_MNEMONIC_PMULHW: case ZYDIS_MNEMONIC_VPMULHW:
	case ZYDIS_MNEMONIC_PMULUDQ: case ZYDIS_MNEMONIC_VPMULUDQ: case ZYDIS_MNEMONIC_PMADDWD:
	case ZYDIS_MNEMONIC_VPMADDWD: case ZYDIS_MNEMONIC_PMULDQ: case ZYDIS_MNEMONIC_VPMULDQ:
	case ZYDIS_MNEMONIC_PMADDUBSW: case ZYDIS_MNEMONIC_VPMADDUBSW:
	case ZYDIS_MNEMONIC_PMULHUW: case ZYDIS_MNEMONIC_VPMULHUW:
	case ZYDIS_MNEMONIC_PSADBW: case ZYDIS_MNEMONIC_VPSADBW:
	case ZYDIS_MNEMONIC_PCLMULQDQ: case ZYDIS_MNEMONIC_VPCLMULQDQ:
		return FLOAT;
	default:
		return INTEGER;
	}
}

/* By the word that its mnemonic contains: Zydis has one for each type and width. */
static uint8_t floating(const ZydisDecodedInstruction *z)
{
	const char *name = ZydisMnemonicGetString(z->mnemonic);

	if (!name)
		return INTEGER;
	if (*name == 'v')
		name++;
	switch (*name) {
	case 'd':	/* div */
		return name[1] == 'i' && name[2] == 'v' ? FLOAT_DIVIDE : FLOAT;
	case 's':	/* sqrt, sub; shuf */
		if (name[1] == 'q')
			return ROOT;
		return name[1] == 'u' ? FLOAT : INTEGER;
	case 'c':	/* cvt; cmp, comis */
		return name[1] == 'v' ? CONVERT : FLOAT;
	case 'a':	/* add; and */
		return name[1] == 'd' ? FLOAT : INTEGER;
	case 'm':	/* mul, max, min; mov */
		if (name[1] == 'o')
			return vector(z);
		return FLOAT;
	case 'f':	/* fma */
	case 'h':	/* hadd, hsub */
	case 'r':	/* rcp, rsqrt, round */
		return FLOAT;
	default:
		return vector(z);
	}
}

static uint8_t general(const ZydisDecodedInstruction *z)
{
	switch (z->mnemonic) {
	case ZYDIS_MNEMONIC_IMUL: case ZYDIS_MNEMONIC_MUL: case ZYDIS_MNEMONIC_MULX:
		return MULTIPLY;
	case ZYDIS_MNEMONIC_DIV: case ZYDIS_MNEMONIC_IDIV:
		return DIVIDE;
	case ZYDIS_MNEMONIC_POPCNT: case ZYDIS_MNEMONIC_LZCNT: case ZYDIS_MNEMONIC_TZCNT:
	case ZYDIS_MNEMONIC_BSF: case ZYDIS_MNEMONIC_BSR: case ZYDIS_MNEMONIC_CRC32:
	case ZYDIS_MNEMONIC_PDEP: case ZYDIS_MNEMONIC_PEXT:
		return COUNT_BITS;
	case ZYDIS_MNEMONIC_CPUID: case ZYDIS_MNEMONIC_RDTSCP: case ZYDIS_MNEMONIC_RDRAND:
	case ZYDIS_MNEMONIC_RDSEED: case ZYDIS_MNEMONIC_XGETBV:
		return SERIAL;
	case ZYDIS_MNEMONIC_RDTSC:
		return DIVIDE;
	default:
		return INTEGER;
	}
}

/* Between general registers and vectors or masks: not a load, a store or a move among its like. */
static bool is_between(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *operands)
{
	bool general = false, other = false;

	if (vector(z) != MOVE_BETWEEN)
		return false;
	for (unsigned i = 0; i < z->operand_count_visible; i++) {
		if (operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY)
			return false;
		if (operands[i].type != ZYDIS_OPERAND_TYPE_REGISTER)
			continue;
		switch (ZydisRegisterGetClass(operands[i].reg.value)) {
		case ZYDIS_REGCLASS_GPR32:
		case ZYDIS_REGCLASS_GPR64:
			general = true;
			break;
		default:
			other = true;
			break;
		}
	}
	return general && other;
}

uint8_t latency_of(const ZydisDecodedInstruction *z, const ZydisDecodedOperand *operands)
{
	switch (z->meta.category) {
	case ZYDIS_CATEGORY_NOP:
	case ZYDIS_CATEGORY_WIDENOP:
	case ZYDIS_CATEGORY_PREFETCH:
	case ZYDIS_CATEGORY_PUSH:
	case ZYDIS_CATEGORY_POP:
	case ZYDIS_CATEGORY_CALL:
	case ZYDIS_CATEGORY_RET:
	case ZYDIS_CATEGORY_UNCOND_BR:
	case ZYDIS_CATEGORY_COND_BR:
		return 0;
	case ZYDIS_CATEGORY_DATAXFER:
		/* Moves between registers are renamed; between files they are not. */
		return is_between(z, operands) ? MOVE_BETWEEN : 0;
	case ZYDIS_CATEGORY_AES:
	case ZYDIS_CATEGORY_SHA:
	case ZYDIS_CATEGORY_VAES:
	case ZYDIS_CATEGORY_GFNI:
	case ZYDIS_CATEGORY_PCLMULQDQ:
	case ZYDIS_CATEGORY_VPCLMULQDQ:
		return CRYPTO;
	case ZYDIS_CATEGORY_BROADCAST:
		/* From memory it is part of the load. */
		return operands[1].type == ZYDIS_OPERAND_TYPE_MEMORY ? 0 : ACROSS_LANES;
	case ZYDIS_CATEGORY_KMASK:
		return is_between(z, operands) ? MOVE_BETWEEN : INTEGER;
	case ZYDIS_CATEGORY_STTNI:
		return STRING_COMPARE;
	case ZYDIS_CATEGORY_X87_ALU:
		switch (z->mnemonic) {
		case ZYDIS_MNEMONIC_FSIN: case ZYDIS_MNEMONIC_FCOS: case ZYDIS_MNEMONIC_FPTAN:
		case ZYDIS_MNEMONIC_FPATAN: case ZYDIS_MNEMONIC_FYL2X: case ZYDIS_MNEMONIC_F2XM1:
			return X87_FUNCTION;
		case ZYDIS_MNEMONIC_FDIV: case ZYDIS_MNEMONIC_FDIVP: case ZYDIS_MNEMONIC_FDIVR:
		case ZYDIS_MNEMONIC_FDIVRP:
			return FLOAT_DIVIDE;
		case ZYDIS_MNEMONIC_FSQRT:
			return ROOT;
		case ZYDIS_MNEMONIC_FLD: case ZYDIS_MNEMONIC_FST: case ZYDIS_MNEMONIC_FSTP:
		case ZYDIS_MNEMONIC_FXCH:
			return 0;
		default:
			return FLOAT;
		}
	case ZYDIS_CATEGORY_SSE:
	case ZYDIS_CATEGORY_AVX:
	case ZYDIS_CATEGORY_AVX2:
	case ZYDIS_CATEGORY_AVX512:
	case ZYDIS_CATEGORY_VFMA:
	case ZYDIS_CATEGORY_FMA4:
	case ZYDIS_CATEGORY_IFMA:
	case ZYDIS_CATEGORY_CONVERT:
		return floating(z);
	default:
		return general(z);
	}
}
