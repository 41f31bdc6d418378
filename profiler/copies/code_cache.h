/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The code cache: translated blocks, and how they get into a copy.  It is kept from copy to copy;
 * what the program's code was when they were translated is in code_pages.h.
 */
#ifndef TLBCOST_COPIES_CODE_CACHE_H
#define TLBCOST_COPIES_CODE_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "address_map.h"
#include "code_block.h"
#include "copy.h"
#include "copy_mappings.h"

/* Number of a block in the stream: sign-extended, no address looks like it. */
#define STREAM_TAG UINT64_C(0xffffffff80000000)

/* How the address of a reference follows from the stream. */
enum slot_source {
	SLOT_RECORD,	/* its record + displacement */
	SLOT_FS_RECORD,	/* the same + the FS base */
	SLOT_FIXED,	/* displacement alone */
	SLOT_FS_FIXED,	/* displacement + the FS base */
	SLOT_STRING,	/* where a repeated instruction began: its record */
	SLOT_LENGTH,	/* and where its last operand ended: the same; see stream.c */
};

struct slot {
	uint8_t source;
	uint8_t record;		/* index in the block's; references may share one */
	int64_t displacement;
};

/*
 * Blocks that follow one another, by branches that are not taken, are translated as one piece: its
 * parts.  The stream has one record of them, with the number of the last one that was executed.
 */
struct cached_block {
	struct code_block code;
	const struct cached_block *before;	/* the part before it; NULL: nothing is */
	uint32_t offset;	/* in the code cache */
	uint8_t first;		/* the register that points into the stream */
	/* Words in the stream, of the parts before it as well: the block's number first. */
	uint8_t records;
	bool plain;		/* all slots are SLOT_RECORD */
	struct slot *slots;	/* one for each reference */
};

/* Why code reached an int3. */
enum exit_kind {
	EXIT_CONTINUES,	/* `target` was not translated when the jump there was */
	EXIT_AGAIN,	/* the block was dropped: translate it again */
	EXIT_CALL,	/* a system call at `target` */
	EXIT_STEP,	/* an instruction that is single-stepped is at `target` */
	EXIT_REFUSE,	/* the same for an instruction that is not followed */
	EXIT_CLOCK,	/* a function of the vDSO */
};

struct code_exit {
	enum exit_kind kind;
	uint64_t target;
	uint32_t jump;		/* offset of the distance of the jump to it; 0: none */
	const struct cached_block *block;	/* EXIT_STEP: as the watcher knows it */
};

struct watcher;

struct translator {
	const struct watcher *watcher;	/* of the current copy */
	uint64_t area;		/* where it is in copies; 0: not known yet */
	uint8_t *code;		/* AREA_CODE_BYTES */
	uint32_t used, sent;	/* bytes; sent to the current copy */
	struct cached_block **blocks;	/* by their numbers */
	size_t count, capacity;
	struct address_map by_address;	/* struct cached_block */
	struct address_map exits;	/* struct code_exit, by offset of their int3 */
	struct address_map pages;	/* struct code_page, by page number */
	uint64_t *table;		/* AREA_TABLE_SLOTS */
	uint32_t *table_code;		/* offsets */
	/* Changed since the last code_cache_send(): offsets of four bytes, and table slots. */
	uint32_t *patches, *slots;
	size_t patch_count, patch_capacity, slot_count, slot_capacity;
	size_t unprotected;	/* pages that have to be write-protected */
	struct copy_mappings mappings;	/* of the current copy */
};

/* Bytes that one more block needs at most. */
#define CODE_CACHE_BLOCK_BYTES 8192u

bool code_cache_full(const struct translator *translator);

/* Forget all blocks and pages. */
void code_cache_clear(struct translator *translator);

/* Each returns 0, or -1 with errno ENOMEM. */
int code_cache_add(struct translator *translator, struct cached_block *block);
int code_cache_add_exit(struct translator *translator, uint32_t offset,
			const struct code_exit *code_exit);
/* The exit's target is translated: jump there. */
int code_cache_chain(struct translator *translator, uint32_t exit_offset,
		     const struct cached_block *block);
/* The program's code has changed: the block must not run again. */
int code_cache_drop(struct translator *translator, const struct cached_block *block);

/* The block whose code is at this offset, or NULL. */
const struct cached_block *code_cache_at(const struct translator *translator, uint32_t offset);

/* A new copy: send it everything.  Returns 0, or -1 with errno. */
int code_cache_begin(struct translator *translator, const struct copy *copy);
/* What is new since. */
int code_cache_send(struct translator *translator, const struct copy *copy);

#endif
