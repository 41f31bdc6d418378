/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The private memory that a copy gets for what is ours: its GS base points there, so added code
 * reaches it without a register.  Offsets from its start.  (No C: lookup.S includes it.)
 */
#ifndef TLBCOST_COPIES_AREA_H
#define TLBCOST_COPIES_AREA_H

/* Where the next record of the stream goes. */
#define AREA_NEXT	0x00
/* The program's values of the block's two registers, and of a third one. */
#define AREA_FIRST	0x08
#define AREA_SECOND	0x10
#define AREA_THIRD	0x18
/* Where the program jumps to, and the code of that. */
#define AREA_TARGET	0x20
#define AREA_CODE_OF	0x28
/* What the look-up saves. */
#define AREA_RAX	0x30
#define AREA_RCX	0x38
#define AREA_RDX	0x40
#define AREA_FLAGS	0x48

/* By the low 16 bits of targets: the targets' negatives, and their code. */
#define AREA_RECENT	0x1000
#define AREA_RECENT_CODE (AREA_RECENT + 0x80000)
/* A hash table of all blocks: their addresses, and their code. */
#define AREA_TABLE	(AREA_RECENT_CODE + 0x80000)
#define AREA_TABLE_SLOTS 0x20000
#define AREA_TABLE_CODE	(AREA_TABLE + 8 * AREA_TABLE_SLOTS)
#define AREA_CODE	(AREA_TABLE_CODE + 8 * AREA_TABLE_SLOTS)
#define AREA_CODE_BYTES	0x2000000
/* The stream's buffer ends where pages that cannot be written begin. */
#define AREA_BUFFER	(AREA_CODE + AREA_CODE_BYTES)
#define AREA_BUFFER_BYTES 0x200000
#define AREA_GUARD_BYTES 0x10000
#define AREA_BYTES	(AREA_BUFFER + AREA_BUFFER_BYTES + AREA_GUARD_BYTES)

/* The hash of an address: these bits of its product with this number. */
#define AREA_HASH_FACTOR 0x61c88647
#define AREA_HASH_SHIFT	20

#endif
