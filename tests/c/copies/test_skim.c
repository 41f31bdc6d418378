/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Do the TLB models count the same when blocks are skimmed?  Made-up blocks, and records of these. */
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "skim.h"
#include "skim_places.h"
#include "translate.h"

#define BLOCKS 64u
#define EXECUTED 60000u
#define MOST_REFERENCES 24u
/* With those of the parts before it. */
#define MOST_OF_PARTS (4u * MOST_REFERENCES)
#define FS_BASE UINT64_C(0x7f0000001000)
#define PAGE UINT64_C(4096)

struct made_up {
	struct cached_block block;
	struct code_instruction instruction;
	struct code_reference references[MOST_REFERENCES];
	struct slot slots[MOST_REFERENCES];
	struct skim_place places[MOST_OF_PARTS];
};

struct rig {
	struct window_options options;
	struct translator translator;
	struct made_up made[BLOCKS];
	struct cached_block *blocks[BLOCKS];
	struct tlb_feed skimmed, fed;
	uint64_t seed;
	uint64_t *records;
	size_t words;
	/* What blocks that end in calls and returns come to, in order. */
	uint64_t transfers, expected_transfers;
	uint64_t taken;		/* blocks that were skimmed */
};

static uint32_t any(struct rig *rig, uint32_t below)
{
	rig->seed = rig->seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (uint32_t)(rig->seed >> 33) % below;
}

static void make_reference(struct rig *rig, struct made_up *made, unsigned i)
{
	static const uint16_t sizes[] = { 1, 4, 8, 64, 512, 0 };
	struct slot *slot = &made->slots[i];

	made->references[i] = (struct code_reference){
		0, sizes[any(rig, 6)], (uint8_t)any(rig, REFERENCE_LENGTH)
	};
	slot->displacement = (int64_t)any(rig, 400) - 200;
	slot->source = (uint8_t)any(rig, SLOT_STRING);
	slot->record = 0;
	if (slot->source == SLOT_FIXED)
		slot->displacement += (int64_t)(0x600000 + any(rig, 3) * PAGE);
	else if (slot->source == SLOT_FS_FIXED)
		slot->displacement += 1000;
	else if (made->block.records > 1 && any(rig, 2))
		slot->record = (uint8_t)(1 + any(rig, made->block.records - 1u));
	else
		slot->record = made->block.records++;
}

/* The block before it, if this can be its next part: in the same page, with few references in all. */
static const struct cached_block *part_before(struct rig *rig, uint32_t number)
{
	const struct cached_block *before = number ? rig->blocks[number - 1] : NULL;

	return before && any(rig, 3) && before->code.end <= ENDS_JUMP &&
			       before->skim.references < MOST_OF_PARTS / 2 &&
			       before->records < MOST_OF_PARTS / 2 &&
			       before->skim.address / PAGE == (before->code.past + 90) / PAGE ?
		       before : NULL;
}

static void make_block(struct rig *rig, uint32_t number)
{
	const struct cached_block *before = part_before(rig, number);
	struct made_up *made = &rig->made[number];
	struct cached_block *block = &made->block;
	const uint64_t address = before ? before->code.past : 0x400000 + any(rig, 20 * PAGE);

	block->code = (struct code_block){
		.address = address, .past = address + 1 + any(rig, 90), .number = number,
		.end = (uint8_t)any(rig, ENDS_STEP), .instruction_count = 1,
		.reference_count =
			(uint8_t)any(rig, before ? 3 : any(rig, 4) ? 5 : MOST_REFERENCES),
		.instructions = &made->instruction, .references = made->references,
	};
	made->instruction.address = address;
	block->slots = made->slots;
	block->places = made->places;
	block->before = before;
	block->records = before ? before->records : 1;
	for (unsigned i = 0; i < block->code.reference_count; i++)
		make_reference(rig, made, i);
	/* Of these a string instruction is one. */
	if (!any(rig, 16) && block->code.reference_count > 1) {
		made->references[0].kind = REFERENCE_STORE;
		made->references[1].kind = REFERENCE_LENGTH;
		made->slots[0].source = SLOT_STRING;
		made->slots[1].source = SLOT_LENGTH;
		if (!made->slots[0].record)
			made->slots[0].record = block->records++;
	}
	skim_plan_make(block);
	rig->blocks[number] = block;
}

static uint64_t address_of(const struct slot *slot, const uint64_t *record)
{
	switch ((enum slot_source)slot->source) {
	case SLOT_RECORD:
		return record[slot->record] + (uint64_t)slot->displacement;
	case SLOT_FS_RECORD:
		return record[slot->record] + (uint64_t)slot->displacement + FS_BASE;
	case SLOT_FIXED:
		return (uint64_t)slot->displacement;
	case SLOT_FS_FIXED:
		return (uint64_t)slot->displacement + FS_BASE;
	case SLOT_STRING:
		return record[slot->record];
	case SLOT_LENGTH:
		break;
	}
	return 300;
}

static void feed_block(struct tlb_feed *feed, const struct cached_block *block,
		       const uint64_t *record)
{
	uint64_t addresses[MOST_REFERENCES];

	if (block->before)
		feed_block(feed, block->before, record);
	for (unsigned i = 0; i < block->code.reference_count; i++)
		addresses[i] = address_of(&block->slots[i], record);
	tlb_feed_block(feed, &block->code, addresses);
}

static const struct cached_block *block_at(const struct rig *rig, size_t word)
{
	return rig->blocks[rig->records[word] ^ STREAM_TAG];
}

/* Executed blocks, whose addresses are in few pages, or in many. */
static void make_records(struct rig *rig, uint32_t pages)
{
	rig->records = malloc(EXECUTED * (MOST_OF_PARTS + 2) * sizeof(*rig->records));
	rig->words = 0;
	for (unsigned i = 0; i < EXECUTED; i++) {
		const struct cached_block *block = rig->blocks[any(rig, 1 + any(rig, BLOCKS))];

		rig->records[rig->words++] = STREAM_TAG | block->code.number;
		for (unsigned k = 1; k < block->records; k++) {
			const uint32_t page = any(rig, any(rig, 8) ? 6 : pages);

			rig->records[rig->words++] = 0x10000000 + page * PAGE + any(rig, PAGE);
		}
	}
}

static void add_transfer(uint64_t *all, const struct code_block *block, uint64_t next)
{
	*all = (*all + block->address) * 31 + next;
}

static void transferred(void *context, const struct code_block *block, uint64_t next)
{
	struct rig *rig = context;

	add_transfer(&rig->transfers, block, next);
}

static bool transfers(const struct cached_block *block)
{
	return block->code.end == ENDS_CALL || block->code.end == ENDS_INDIRECT_CALL ||
	       block->code.end == ENDS_RETURN;
}

/* All of it: skimmed where possible, in pieces. */
static void skim_all(struct rig *rig)
{
	struct skim_use use = { .until = 1000, .transferred = transferred, .context = rig };
	struct skim part = { .translator = &rig->translator, .fs_base = FS_BASE,
			     .record = rig->records, .end = rig->records + rig->words };

	while (part.record < part.end) {
		const struct cached_block *block;
		const uint64_t before = rig->skimmed.clock;
		const uint64_t taken = skim(&part, &rig->skimmed, &use);

		rig->taken += taken;
		CHECK(!taken || rig->skimmed.clock < use.until);
		CHECK(rig->skimmed.clock >= before);
		block = block_at(rig, (size_t)(part.record - rig->records));
		feed_block(&rig->skimmed, block, part.record);
		part.record += block->records;
		if (transfers(block) && part.record < part.end)
			transferred(rig, &block->code,
				    block_at(rig, (size_t)(part.record - rig->records))
					    ->skim.address);
		use.until = rig->skimmed.clock + 1 + any(rig, 3000);
	}
}

static void feed_all(struct rig *rig)
{
	for (size_t word = 0; word < rig->words;) {
		const struct cached_block *block = block_at(rig, word);

		feed_block(&rig->fed, block, rig->records + word);
		word += block->records;
		if (transfers(block) && word < rig->words)
			add_transfer(&rig->expected_transfers, &block->code,
				     block_at(rig, word)->skim.address);
	}
}

static void check_counts(const struct tlb_counts *skimmed, const struct tlb_counts *fed)
{
	for (int side = 0; side < TLB_SIDES; side++) {
		CHECK_EQUAL(skimmed[side].l1_misses, fed[side].l1_misses);
		CHECK_EQUAL(skimmed[side].stlb_hits, fed[side].stlb_hits);
		CHECK_EQUAL(skimmed[side].stlb_misses, fed[side].stlb_misses);
		CHECK_EQUAL(skimmed[side].unknown, fed[side].unknown);
	}
}

/* Returns the share of blocks that were skimmed, in percent. */
static unsigned compare(uint64_t seed, const char *l1d, const char *l1i, uint32_t pages,
			bool with_views)
{
	static const char *const views[] = {
		"page=65536,l1d=16:16,l1i=8:2,stlb=64:4", "page=4096,l1d=48:12,l1i=16:4,stlb=32:4",
	};
	struct rig *rig = calloc(1, sizeof(*rig));
	unsigned share;

	rig->seed = seed;
	window_options_init(&rig->options);
	CHECK_EQUAL(window_options_take(&rig->options, "l1d", l1d), 1);
	CHECK_EQUAL(window_options_take(&rig->options, "l1i", l1i), 1);
	CHECK_EQUAL(window_options_take(&rig->options, "stlb", "64:4,64:4"), 1);
	if (with_views) {
		CHECK_EQUAL(window_options_take(&rig->options, "view", views[0]), 1);
		CHECK_EQUAL(window_options_take(&rig->options, "view", views[1]), 1);
	}
	rig->translator.blocks = rig->blocks;
	rig->translator.count = BLOCKS;
	for (uint32_t i = 0; i < BLOCKS; i++)
		make_block(rig, i);
	make_records(rig, pages);
	CHECK_EQUAL(tlb_feed_init(&rig->skimmed, &rig->options), 0);
	CHECK_EQUAL(tlb_feed_init(&rig->fed, &rig->options), 0);
	skim_all(rig);
	feed_all(rig);
	CHECK_EQUAL(rig->skimmed.clock, rig->fed.clock);
	CHECK(rig->transfers == rig->expected_transfers);
	tlb_model_flush(&rig->skimmed.model);
	tlb_model_flush(&rig->fed.model);
	for (int size = 0; size < TLB_SIZES; size++)
		check_counts(rig->skimmed.model.counts[size], rig->fed.model.counts[size]);
	for (uint32_t i = 0; i < rig->options.view_count; i++)
		check_counts(tlb_view_counts(&rig->skimmed.views, i),
			     tlb_view_counts(&rig->fed.views, i));
	share = (unsigned)(100 * rig->taken / EXECUTED);
	tlb_feed_free(&rig->skimmed);
	tlb_feed_free(&rig->fed);
	free(rig->records);
	free(rig);
	return share;
}

static void pages_that_are_used_again(void)
{
	for (uint64_t seed = 1; seed <= 8; seed++)
		CHECK(compare(seed, "64:4,32:4", "64:8,8:8", 40, false) > 25);
}

static void pages_that_collide(void)
{
	for (uint64_t seed = 1; seed <= 8; seed++)
		CHECK(compare(seed, "16:4,16:4", "8:2,4:4", 3000, false) > 5);
}

static void pages_that_miss(void)
{
	for (uint64_t seed = 1; seed <= 8; seed++)
		CHECK(compare(seed, "4:4,2:2", "4:4,2:2", 100000, false) < 50);
}

static void further_machines(void)
{
	for (uint64_t seed = 1; seed <= 8; seed++)
		CHECK(compare(seed, "64:4,32:4", "64:8,8:8", 300, true) > 5);
}

/* Near references from one record are one place, used when the last of them is. */
static void near_references_are_one_place(void)
{
	const struct code_reference references[] = {
		{ 0, 8, REFERENCE_LOAD }, { 0, 8, REFERENCE_MODIFY }, { 0, 8, REFERENCE_LOAD },
		{ 0, 8, REFERENCE_LOAD },
	};
	struct slot slots[] = {
		{ SLOT_RECORD, 1, 16 }, { SLOT_RECORD, 2, 0 }, { SLOT_RECORD, 1, -8 },
		{ SLOT_RECORD, 1, 4000 },
	};
	struct skim_place places[4];
	struct cached_block block = { .slots = slots, .places = places };

	block.code.references = references;
	block.code.reference_count = 4;
	skim_plan_make(&block);
	CHECK_EQUAL(block.skim.count, 3);
	CHECK_EQUAL(block.skim.references, 5);
	CHECK_EQUAL(places[0].used, 2);
	CHECK_EQUAL(places[1].displacement, -8);
	CHECK_EQUAL(places[1].last_byte, 31);
	CHECK_EQUAL(places[1].used, 3);
	CHECK_EQUAL(places[2].displacement, 4000);
}

static const struct check_test tests[] = {
	{ "pages that are used again", pages_that_are_used_again },
	{ "pages that collide", pages_that_collide },
	{ "pages that miss", pages_that_miss },
	{ "further machines", further_machines },
	{ "near references are one place", near_references_are_one_place },
};

CHECK_MAIN(tests)
