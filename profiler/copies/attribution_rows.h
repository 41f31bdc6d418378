/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What attribution knows, until it is written: for attribution.c and attribution_tables.c. */
#ifndef TLBCOST_COPIES_ATTRIBUTION_ROWS_H
#define TLBCOST_COPIES_ATTRIBUTION_ROWS_H

#include "address_map.h"
#include "timing/config.h"
#include "tlb/model.h"
#include "copy_mappings.h"
#include "stacks.h"

enum { DATA, FETCH, KINDS };

struct misses {
	uint64_t hits, walks;
};

/* Of a mapping in a window. */
struct memory_row {
	uint32_t window, mapping;
	struct misses misses[TLB_SIZES][KINDS];
	ticks waited[TLB_SIZES];
};

/* Of an instruction in a window. */
struct code_row {
	uint32_t window, mapping;
	uint64_t address;
	struct misses misses[TLB_SIZES][KINDS];
};

/* Of a huge page's place in anonymous memory, in a window: loads and stores that walked. */
struct block_row {
	uint32_t window;
	uint64_t address;
	uint64_t resident_bytes;	/* of it, at its first walk; UINT64_MAX: not known */
	uint64_t walks[TLB_SIZES];
};

/* A mapping that missed in any window. */
struct known_mapping {
	pid_t pid;
	struct copy_mapping mapping;		/* its name is its own */
};

#define NO_ROW SIZE_MAX

struct attribution {
	uint32_t window;
	pid_t pid;
	pid_t mapped_in;		/* the process of the mappings: the current copy */
	bool stale;			/* they changed */
	struct copy_mappings mappings;
	size_t *rows;			/* of each of these: its memory row, or NO_ROW */
	struct address_map code;	/* of the window: number of the row + 1, by instruction */
	struct known_mapping *known;
	size_t known_count, known_capacity;
	struct memory_row *memory;
	size_t memory_count, memory_capacity;
	struct code_row *instructions;
	size_t code_count, code_capacity;
	struct address_map places;	/* of the window: number of the row + 1, by address */
	int pagemap;			/* of the mappings' process; -1: it cannot be read */
	struct block_row *blocks;
	size_t block_count, block_capacity;
	struct stacks stacks;
	size_t placed;			/* nodes of the stacks whose mapping is known */
	bool failed;			/* memory ran out: some misses are missing */
};

#endif
