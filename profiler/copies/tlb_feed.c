/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "tlb_feed.h"

#include <errno.h>
#include <stdlib.h>

/* A line: what a repeated string instruction moves is looked up once in each. */
#define STRING_STEP 64u
/* Operands of such an instruction. */
#define STRING_OPERANDS 2u

int tlb_feed_init(struct tlb_feed *feed, const struct window_options *options)
{
	feed->model_memory = malloc(tlb_model_bytes(&options->tlb));
	if (!feed->model_memory) {
		errno = ENOMEM;
		return -1;
	}
	tlb_feed_reset(feed, options);
	return 0;
}

void tlb_feed_free(struct tlb_feed *feed)
{
	free(feed->model_memory);
	feed->model_memory = NULL;
}

void tlb_feed_reset(struct tlb_feed *feed, const struct window_options *options)
{
	tlb_model_init(&feed->model, &options->tlb, feed->model_memory, &feed->data_filter,
		       &feed->code_filter);
	feed->clock = 0;
	feed->code_page = UINT64_MAX;
	feed->jumped = true;
}

/* Of a page in the filter, only the time of last use changes. */
static inline bool in_filter(struct tlb_filter *filter, const struct tlb_slots *slots,
			     uint64_t address, uint64_t time)
{
	struct tlb_filter_slot *slot = &filter->slot[tlb_filter_index(slots, address)];

	if (address >> slots->base_shift != slot->address >> slots->base_shift)
		return false;
	slot->time = time;
	return true;
}

static void fetch(struct tlb_feed *feed, uint64_t address)
{
	struct tlb_model *model = &feed->model;
	const uint64_t time = feed->clock++;

	if (!in_filter(&feed->code_filter, &model->code.slots, address, time))
		tlb_model_fetch(model, address, time);
}

static void access_code(struct tlb_feed *feed, const struct code_block *block)
{
	const uint32_t shift = feed->model.code.slots.base_shift;
	const uint64_t end = block->past > block->address ? block->past - 1 : block->address;
	const uint64_t first = block->address >> shift, last = end >> shift;

	if (first != feed->code_page || feed->jumped)
		fetch(feed, block->address);
	if (last != first)
		fetch(feed, end);
	feed->code_page = last;
	feed->jumped = block->end == ENDS_INDIRECT_JUMP || block->end == ENDS_RETURN ||
		       block->end == ENDS_INDIRECT_CALL;
}

static inline void access_page(struct tlb_feed *feed, uint64_t address, enum tlb_side side,
			       uint64_t time, const struct code_instruction *instruction)
{
	struct tlb_model *model = &feed->model;

	/* While misses are frequent the filter is empty. */
	if (!model->batching && in_filter(&feed->data_filter, &model->data.slots, address, time))
		return;
	model->where = instruction->address;
	if (model->batching)
		tlb_model_batch(model, address, side, time);
	else
		tlb_model_data(model, address, side, time);
}

static inline void access_bytes(struct tlb_feed *feed, uint64_t address, uint64_t bytes,
				enum tlb_side side, const struct code_instruction *instruction)
{
	const uint32_t shift = feed->model.data.slots.base_shift;
	const uint64_t time = feed->clock++;

	access_page(feed, address, side, time, instruction);
	if (bytes > 1 && (address + bytes - 1) >> shift != address >> shift)
		access_page(feed, address + bytes - 1, side, time, instruction);
}

/*
 * A string instruction that repeats, from its first operand at `index`: the operands advance
 * together, line by line, and each element is a reference.  Returns the index past it.
 */
static unsigned access_string(struct tlb_feed *feed, const struct code_block *block, unsigned index,
			      const uint64_t *addresses)
{
	const struct code_reference *first = &block->references[index];
	const struct code_instruction *instruction = &block->instructions[first->instruction];
	const uint64_t length = addresses[index + 1];
	const uint64_t bytes = first->bytes ? first->bytes : 1;
	unsigned operands = 0;

	while (operands < STRING_OPERANDS && index + 2 * operands + 1 < block->reference_count &&
	       first[2 * operands].instruction == first->instruction &&
	       first[2 * operands + 1].kind == REFERENCE_LENGTH)
		operands++;
	for (uint64_t done = 0; done < length; done += STRING_STEP) {
		const uint64_t element = done / bytes * operands;
		uint64_t rest = length - done;

		if (rest > STRING_STEP)
			rest = STRING_STEP;
		for (unsigned i = 0; i < operands; i++) {
			const enum tlb_side side =
				first[2 * i].kind == REFERENCE_LOAD ? TLB_LOAD : TLB_STORE;
			const uint64_t address = addresses[index + 2 * i] + done;
			const uint32_t shift = feed->model.data.slots.base_shift;

			access_page(feed, address, side, feed->clock + element + i, instruction);
			if ((address + rest - 1) >> shift != address >> shift)
				access_page(feed, address + rest - 1, side,
					    feed->clock + element + i, instruction);
		}
	}
	feed->clock += length / bytes * operands;
	return index + 2 * operands;
}

void tlb_feed_block(struct tlb_feed *feed, const struct code_block *block,
		    const uint64_t *addresses)
{
	access_code(feed, block);
	for (unsigned i = 0; i < block->reference_count;) {
		const struct code_reference *reference = &block->references[i];
		const struct code_instruction *instruction =
			&block->instructions[reference->instruction];
		const uint64_t address = addresses[i];

		if (i + 1u < block->reference_count && reference[1].kind == REFERENCE_LENGTH) {
			i = access_string(feed, block, i, addresses);
			continue;
		}
		i++;
		/* It was not made. */
		if (!address)
			continue;
		access_bytes(feed, address, reference->bytes,
			     reference->kind == REFERENCE_STORE ? TLB_STORE : TLB_LOAD,
			     instruction);
		if (reference->kind == REFERENCE_MODIFY)
			access_bytes(feed, address, reference->bytes, TLB_STORE, instruction);
	}
}
