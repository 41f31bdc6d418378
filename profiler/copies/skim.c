/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "skim.h"

#include "translate.h"

#define INLINE inline __attribute__((always_inline))

static INLINE struct tlb_filter_slot *slot_of(struct tlb_filter *filter, uint64_t address,
					      uint32_t shift)
{
	return &filter->slot[(address >> shift) % TLB_FILTER_SLOTS];
}

/* How far it has come. */
struct skimming {
	struct tlb_feed *feed;
	uint64_t fs_base, clock;
	uint64_t code_page;
	bool jumped;
};

/*
 * Its references, at the filter slots that are found for all before any is changed.  Returns false
 * if one is not there.  `count` is its number of places: a constant where this is called.
 */
static INLINE bool use_places(const struct skimming *now, const struct skim_place *places,
			      unsigned count, const uint64_t *records, uint64_t clock)
{
	const uint32_t shift = now->feed->model.data.slots.base_shift;
	struct tlb_filter_slot *slots[SKIM_MOST_PLACES];
	uint64_t differs = 0;

	for (unsigned i = 0; i < count; i++) {
		const struct skim_place *place = &places[i];
		const uint64_t address = records[place->record] + (uint64_t)place->displacement +
					 (now->fs_base & -(uint64_t)place->fs);

		slots[i] = slot_of(&now->feed->data_filter, address, shift);
		differs |= slots[i]->address ^ address;
		differs |= slots[i]->address ^ (address + place->last_byte);
	}
	if (differs >> shift)
		return false;
	for (unsigned i = 0; i < count; i++)
		slots[i]->time = clock + places[i].used;
	return true;
}

static INLINE bool use_all_places(const struct skimming *now, const struct cached_block *block,
				  const uint64_t *records, uint64_t clock)
{
	switch (block->skim.count) {
	case 0:
		return true;
	case 1:
		return use_places(now, block->places, 1, records, clock);
	case 2:
		return use_places(now, block->places, 2, records, clock);
	case 3:
		return use_places(now, block->places, 3, records, clock);
	case 4:
		return use_places(now, block->places, 4, records, clock);
	default:
		return block->skim.count <= SKIM_MOST_PLACES &&
		       use_places(now, block->places, block->skim.count, records, clock);
	}
}

/* Returns false if it takes more; then nothing has changed. */
static INLINE bool execute(struct skimming *now, const struct cached_block *block,
			   const uint64_t *records)
{
	const uint32_t shift = now->feed->model.code.slots.base_shift;
	const uint64_t begin = block->skim.address, end = block->skim.last;
	const bool enters = begin >> shift != now->code_page || now->jumped;
	const bool crosses = begin >> shift != end >> shift;
	struct tlb_filter_slot *first = NULL, *last = NULL;
	uint64_t clock = now->clock;

	if (enters || crosses) {
		first = slot_of(&now->feed->code_filter, begin, shift);
		last = slot_of(&now->feed->code_filter, end, shift);
		if (((first->address ^ begin) | (last->address ^ end)) >> shift)
			return false;
		clock += (uint64_t)enters + crosses;
	}
	if (!use_all_places(now, block, records, clock))
		return false;
	if (enters || crosses) {
		if (enters)
			first->time = now->clock;
		if (crosses)
			last->time = clock - 1;
		now->code_page = end >> shift;
	}
	now->jumped = block->skim.jumps;
	now->clock = clock + block->skim.references;
	return true;
}

/* References and fetches of one block at most. */
#define MOST_REFERENCES (2 * CODE_BLOCK_MOST_REFERENCES + 2)

uint64_t skim(struct skim *skim, struct tlb_feed *feed, const struct skim_use *use)
{
	struct cached_block *const *blocks = skim->translator->blocks;
	const size_t count = skim->translator->count;
	const struct cached_block *block, *next;
	struct skimming now = {
		.feed = feed, .fs_base = skim->fs_base, .clock = feed->clock,
		.code_page = feed->code_page, .jumped = feed->jumped,
	};
	uint64_t instructions = 0, number = *skim->record ^ STREAM_TAG;

	if (feed->model.batching || number >= count)
		return 0;
	for (block = blocks[number]; block->records < skim->end - skim->record; block = next) {
		const uint64_t *following = skim->record + block->records;

		number = *following ^ STREAM_TAG;
		if (number >= count ||
		    now.clock + MOST_REFERENCES >= use->until ||
		    !execute(&now, block, skim->record))
			break;
		next = blocks[number];
		if (block->skim.transfers)
			use->transferred(use->context, &block->code, next->skim.address);
		instructions += block->skim.instructions;
		skim->record = following;
	}
	feed->clock = now.clock;
	feed->code_page = now.code_page;
	feed->jumped = now.jumped;
	return instructions;
}
