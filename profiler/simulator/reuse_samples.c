/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "reuse_samples.h"
#include "cores.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"

ULong reuse_samples_below;

#define PAGE_SHIFT 12u
#define LINES_SHIFT (SAMPLED_BLOCK_SHIFT - LINE_SHIFT)
/* One block in 16 at first; half as many whenever there are too many. */
#define AT_FIRST_SHIFT 4u
#define MOST_BLOCKS 1024u
#define SLOTS (2 * MOST_BLOCKS)

struct sampled_block {
	uint64_t number;	/* + 1; 0: none */
	uint64_t walked;	/* time + 1 of the last walk to any of its pages; 0: none */
	uint64_t accessed[1u << LINES_SHIFT];	/* the same of each line */
	uint32_t touched;	/* bits of pages */
};

static struct sampled_block *blocks;	/* by number, in the next free slot */
static UInt block_count;
static struct reuse reuse;

void reuse_samples_start(void)
{
	Bool asked = False;
	UInt shift;

	reuse_samples_below = 0;
	/* Blocks assume base pages of 4 KiB, as all published cores are modelled with. */
	if (options.tlb.page_shift[TLB_BASE] != PAGE_SHIFT)
		return;
	for (UInt core = 0; options.windows.period && core < core_count(); core++)
		asked |= config_of(core, &shift)->l3_half_life_cycles[0] == 0;
	if (!asked)
		return;
	if (!blocks)
		blocks = VG_(malloc)("tlbsim.reuse", SLOTS * sizeof(*blocks));
	VG_(memset)(blocks, 0, SLOTS * sizeof(*blocks));
	VG_(memset)(&reuse, 0, sizeof(reuse));
	block_count = 0;
	reuse.rarity = AT_FIRST_SHIFT;
	reuse_samples_below = 1ULL << (32 - AT_FIRST_SHIFT);
}

static struct sampled_block *slot_of(uint64_t number)
{
	UInt slot = (UInt)(number * UINT64_C(0x9e3779b97f4a7c15) >> 32) % SLOTS;

	while (blocks[slot].number && blocks[slot].number != number + 1)
		slot = (slot + 1) % SLOTS;
	return &blocks[slot];
}

/* Half of the blocks remain. */
static void thin_out(void)
{
	struct sampled_block *before = blocks;

	reuse_samples_below /= 2;
	reuse_thin(&reuse);
	blocks = VG_(calloc)("tlbsim.reuse", SLOTS, sizeof(*blocks));
	block_count = 0;
	for (UInt slot = 0; slot < SLOTS; slot++) {
		const uint64_t number = before[slot].number - 1;

		if (!before[slot].number || !reuse_samples_has(number << SAMPLED_BLOCK_SHIFT))
			continue;
		*slot_of(number) = before[slot];
		block_count++;
	}
	VG_(free)(before);
}

/* NULL: the sample was full, and the block is no longer in it. */
static struct sampled_block *block_of(uint64_t address)
{
	const uint64_t number = address >> SAMPLED_BLOCK_SHIFT;
	struct sampled_block *block = slot_of(number);

	if (block->number)
		return block;
	while (block_count == MOST_BLOCKS)
		thin_out();
	if (!reuse_samples_has(address))
		return NULL;
	block = slot_of(number);
	block->number = number + 1;
	block_count++;
	return block;
}

/* Since the last access, which is now. */
static void saw(enum line_kind kind, uint64_t *last, uint64_t time)
{
	reuse_saw(&reuse, kind, *last ? time + 1 - *last : NEVER_ACCESSED);
	*last = time + 1;
}

void reuse_samples_saw(uint64_t address, enum tlb_side side, uint64_t time)
{
	struct sampled_block *block = block_of(address);
	const UInt line = (UInt)(address >> LINE_SHIFT) % (1u << LINES_SHIFT);
	const UInt page = line >> (PAGE_SHIFT - LINE_SHIFT);

	if (!block)
		return;
	/* On the first store to a page the kernel clears it. */
	if (!(block->touched & 1u << page) && side == TLB_STORE)
		for (UInt i = 0; i < 1u << (PAGE_SHIFT - LINE_SHIFT); i++)
			block->accessed[(page << (PAGE_SHIFT - LINE_SHIFT)) + i] = time + 1;
	block->touched |= 1u << page;
	saw(LINE_DATA, &block->accessed[line], time);
}

void reuse_samples_walked(uint64_t address, uint64_t time)
{
	struct sampled_block *block;

	if (reuse_samples_has(address) && (block = block_of(address)))
		saw(LINE_TABLE, &block->walked, time);
}

const struct reuse *reuse_samples_now(uint64_t time)
{
	if (!reuse_samples_below)
		return NULL;
	reuse_fade(&reuse, time);
	return &reuse;
}
