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

/* When a line was last accessed, + 1 (0: never), and its usual age then. */
struct sampled_line {
	uint64_t last, usual;
};

struct sampled_block {
	uint64_t number;	/* + 1; 0: none */
	struct sampled_line table;	/* of the entries of its pages */
	struct sampled_line lines[1u << LINES_SHIFT];
	uint32_t touched;	/* bits of pages */
};

static struct sampled_block *blocks;	/* by number, in the next free slot */
static UInt block_count, page_count;	/* pages: those accessed */
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
	page_count = 0;
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
	block_count = page_count = 0;
	for (UInt slot = 0; slot < SLOTS; slot++) {
		const uint64_t number = before[slot].number - 1;

		if (!before[slot].number || !reuse_samples_has(number << SAMPLED_BLOCK_SHIFT))
			continue;
		*slot_of(number) = before[slot];
		block_count++;
		page_count += (UInt)__builtin_popcount(before[slot].touched);
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

/* It is accessed now.  The usual age is a moving average of about the last four. */
static void saw(enum line_kind kind, struct sampled_line *line, uint64_t time)
{
	const uint64_t age = line->last ? time + 1 - line->last : NEVER_ACCESSED;

	if (line->last)
		line->usual = line->usual ? line->usual - line->usual / 4 + age / 4 : age;
	reuse_saw(&reuse, kind, age, line->usual);
	line->last = time + 1;
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
			block->lines[(page << (PAGE_SHIFT - LINE_SHIFT)) + i].last = time + 1;
	page_count += !(block->touched & 1u << page);
	block->touched |= 1u << page;
	saw(LINE_DATA, &block->lines[line], time);
}

void reuse_samples_walked(uint64_t address, uint64_t time)
{
	struct sampled_block *block;

	if (reuse_samples_has(address) && (block = block_of(address)))
		saw(LINE_TABLE, &block->table, time);
}

/*
 * The fraction of the program's pages that was sampled.  Blocks are few, so it can differ from the
 * nominal fraction.  Unmapped pages are in only one of the two counts, so a fraction that is too
 * far off is not trusted.
 */
static double sampled_part(uint64_t pages)
{
	const double wanted = (double)reuse_samples_below / (double)(UINT64_C(1) << 32);
	const double part = pages ? (double)page_count / (double)pages : 0;

	return part > wanted / 2 && part < wanted * 2 ? part : wanted;
}

const struct reuse *reuse_samples_now(uint64_t time, uint64_t pages)
{
	if (!reuse_samples_below)
		return NULL;
	reuse.sampled = sampled_part(pages);
	reuse_fade(&reuse, time);
	return &reuse;
}
