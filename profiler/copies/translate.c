/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "translate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "skim_places.h"
#include "step.h"
#include "translation.h"
#include "vdso.h"
#include "watcher.h"

/* The block's record, in one piece of memory. */
static struct cached_block *keep(const struct translation *made, uint32_t offset, uint32_t number)
{
	const size_t slots = made->references * sizeof(struct slot);
	const size_t instructions = made->count * sizeof(struct code_instruction);
	const size_t references = made->references * sizeof(struct code_reference);
	const size_t starts = made->emitted ? made->count * sizeof(uint16_t) : 0;
	const size_t places = made->references * sizeof(struct skim_place);
	struct cached_block *block =
		malloc(sizeof(*block) + slots + places + instructions + references + starts);
	struct code_instruction *list;
	struct code_reference *copied;

	if (!block)
		return NULL;
	block->slots = (struct slot *)(block + 1);
	block->places = (struct skim_place *)(block->slots + made->references);
	list = (struct code_instruction *)(block->places + made->references);
	copied = (struct code_reference *)(list + made->count);
	if (slots) {
		memcpy(block->slots, made->slots, slots);
		memcpy(copied, made->made, references);
	}
	for (unsigned i = 0; i < made->count; i++) {
		list[i].address = made->instructions[i].address;
		list[i].length = made->instructions[i].length;
	}
	block->starts = NULL;
	if (starts) {
		block->starts = (uint16_t *)(copied + made->references);
		memcpy(block->starts, made->starts, starts);
	}
	block->body = made->body;
	block->code = (struct code_block){
		.address = made->address, .past = made->past, .target = made->target,
		.number = number, .end = made->end,
		.instruction_count = (uint8_t)made->count,
		.reference_count = (uint8_t)made->references,
		.instructions = list, .references = copied,
	};
	block->offset = offset;
	block->first = (uint8_t)made->first;
	block->second = (uint8_t)made->second;
	block->records = (uint8_t)made->records;
	block->plain = true;
	for (unsigned i = 0; i < made->references; i++)
		block->plain = block->plain && made->slots[i].source == SLOT_RECORD;
	skim_plan_make(block);
	return block;
}

/* Nothing of it is in the stream: an int3 says what it is. */
static int emit_exit(struct translation *made, enum exit_kind kind)
{
	const struct code_exit code_exit = { .kind = kind, .target = made->address };
	const uint32_t at = made->emitter.used;

	emit_u8(&made->emitter, INT3);
	return code_cache_add_exit(made->translator, at, &code_exit);
}

static int emit_any(struct translation *made, uint32_t number, struct ahead *ahead)
{
	struct translator *translator = made->translator;
	enum flow flow;

	if (vdso_is_clock(translator, made->address)) {
		made->past = made->address + 1;
		return emit_exit(made, EXIT_CLOCK);
	}
	flow = select_instructions(made);
	if (made->count)
		return write_block(made, flow, number, ahead);
	made->past = made->address + 1;
	if (flow != FLOW_STEP) {
		/* Too many registers for ours: never seen, and stepped as well. */
		flow = flow == FLOW_REFUSE ? FLOW_REFUSE : FLOW_STEP;
	}
	if (flow == FLOW_REFUSE)
		return emit_exit(made, EXIT_REFUSE);
	made->count = 1;
	made->references = step_references(&made->instructions[0], made->made);
	made->end = ENDS_STEP;
	made->past = made->address + made->instructions[0].length;
	add_ahead(ahead, made->past);
	return emit_exit(made, EXIT_STEP);
}

static struct cached_block *translate_one(struct translator *translator, const struct copy *copy,
					  uint64_t address, struct ahead *ahead)
{
	/* Too large for the stack; there is one thread. */
	static struct translation made;
	const uint32_t number = (uint32_t)translator->count, offset = translator->used;
	const struct watcher *watcher = translator->watcher;
	struct cached_block *block;

	made.translator = translator;
	made.copy = copy;
	made.emitter = (struct emitter){ translator->code, offset };
	made.address = made.past = address;
	made.count = made.references = made.records = 0;
	made.used = 0;
	made.relative = made.emitted = false;
	made.target = 0;
	made.end = ENDS_CUT;
	if (emit_any(&made, number, ahead) < 0)
		return NULL;
	if (!made.count && code_cache_fetch(translator, copy, address, (uint8_t[16]){ 0 }) == 0) {
		errno = EFAULT;
		return NULL;
	}
	block = keep(&made, offset, number);
	if (!block)
		return NULL;
	translator->used = (made.emitter.used + 15) & ~15u;
	if (watcher && watcher->translated && made.count)
		block->code.watched =
			watcher->translated(watcher->context, &block->code, made.instructions);
	if (code_cache_add(translator, block) < 0)
		return NULL;
	return block;
}

struct cached_block *translate_code(struct translator *translator, const struct copy *copy,
			       uint64_t address)
{
	struct cached_block *block = address_map_get(&translator->by_address, address);
	struct ahead ahead = { .count = 0 };

	if (block)
		return block;
	block = translate_one(translator, copy, address, &ahead);
	for (unsigned i = 0; block && i < ahead.count; i++)
		if (!address_map_get(&translator->by_address, ahead.addresses[i]))
			translate_one(translator, copy, ahead.addresses[i], &ahead);
	return block;
}
