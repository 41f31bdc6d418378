/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "skim_places.h"

/* Larger ones would often cross pages. */
#define PLACE_BYTES 128

/* A reference relative to the same: make the place larger if they are near. */
static bool join(struct skim_place *place, const struct skim_place *other)
{
	int64_t first = place->displacement, last = first + place->last_byte;

	if (place->record != other->record || place->fs != other->fs)
		return false;
	if (other->displacement < first)
		first = other->displacement;
	if (other->displacement + other->last_byte > last)
		last = other->displacement + other->last_byte;
	if (last - first >= PLACE_BYTES)
		return false;
	place->displacement = first;
	place->last_byte = (uint16_t)(last - first);
	return true;
}

/* The last place is the one used last. */
static void add(struct cached_block *block, struct skim_place added)
{
	struct skim_plan *plan = &block->skim;
	unsigned i = 0;

	while (i < plan->count && !join(&block->places[i], &added))
		i++;
	if (i < plan->count) {
		const uint8_t used = added.used;

		added = block->places[i];
		added.used = used;
		for (plan->count--; i < plan->count; i++)
			block->places[i] = block->places[i + 1];
	}
	block->places[plan->count++] = added;
}

/* What the parts before it do, which its record has as well. */
static void begin_plan(struct cached_block *block)
{
	const struct cached_block *before = block->before;
	const uint8_t end = block->code.end;
	struct skim_plan *plan = &block->skim;

	*plan = before ? before->skim : (struct skim_plan){ .address = block->code.address };
	plan->transfers = end == ENDS_CALL || end == ENDS_INDIRECT_CALL || end == ENDS_RETURN;
	plan->jumps = end == ENDS_INDIRECT_JUMP || end == ENDS_INDIRECT_CALL || end == ENDS_RETURN;
	plan->instructions = (uint8_t)(plan->instructions + block->code.instruction_count);
	plan->last = block->code.past - 1;
	for (unsigned i = 0; before && plan->count != UINT8_MAX && i < plan->count; i++) {
		block->places[i] = before->places[i];
		if (!block->places[i].record)
			block->places[i].displacement +=
				(int64_t)before->code.number - block->code.number;
	}
}

void skim_plan_make(struct cached_block *block)
{
	const int64_t number = (int64_t)(STREAM_TAG | block->code.number);
	struct skim_plan *plan = &block->skim;

	begin_plan(block);
	if (plan->count == UINT8_MAX)
		return;
	for (unsigned i = 0; i < block->code.reference_count; i++) {
		const struct code_reference *reference = &block->code.references[i];
		const struct slot *slot = &block->slots[i];

		if (slot->source == SLOT_STRING || slot->source == SLOT_LENGTH) {
			plan->count = UINT8_MAX;
			return;
		}
		plan->references = (uint8_t)(plan->references +
					     (reference->kind == REFERENCE_MODIFY ? 2 : 1));
		add(block, (struct skim_place){
			/* The first record is the block's number: what is not relative is to that. */
			.displacement = slot->displacement - (slot->record ? 0 : number),
			.record = slot->record,
			.last_byte = reference->bytes ? (uint16_t)(reference->bytes - 1) : 0,
			.fs = slot->source == SLOT_FS_RECORD || slot->source == SLOT_FS_FIXED,
			.used = (uint8_t)(plan->references - 1),
		});
	}
}
