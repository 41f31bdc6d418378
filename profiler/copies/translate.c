/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "translate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "code_pages.h"
#include "step.h"
#include "translation.h"
#include "vdso.h"
#include "watcher.h"

/* Of a part, in one piece of memory: its record, with lists of this length. */
static struct cached_block *allocate(unsigned count, unsigned references)
{
	struct cached_block *block =
		malloc(sizeof(*block) + references * (sizeof(struct slot) + sizeof(struct code_reference)) +
		       count * sizeof(struct code_instruction));
	struct code_instruction *list;
	struct code_reference *copied;

	if (!block)
		return NULL;
	block->slots = (struct slot *)(block + 1);
	list = (struct code_instruction *)(block->slots + references);
	copied = (struct code_reference *)(list + count);
	block->code = (struct code_block){
		.instruction_count = (uint8_t)count, .reference_count = (uint8_t)references,
		.instructions = list, .references = copied,
	};
	return block;
}

/* Its instructions from number `first` on, and its references. */
static void copy_lists(const struct translation *made, struct cached_block *block, unsigned first,
		       unsigned first_reference)
{
	/* They do not change afterwards. */
	struct code_instruction *list = (struct code_instruction *)(uintptr_t)block->code.instructions;
	struct code_reference *copied = (struct code_reference *)(uintptr_t)block->code.references;

	for (unsigned i = 0; i < block->code.instruction_count; i++) {
		list[i].address = made->instructions[first + i].address;
		list[i].length = made->instructions[first + i].length;
	}
	block->plain = true;
	for (unsigned i = 0; i < block->code.reference_count; i++) {
		block->slots[i] = made->slots[first_reference + i];
		copied[i] = made->made[first_reference + i];
		copied[i].instruction = (uint16_t)(copied[i].instruction - first);
		block->plain = block->plain && block->slots[i].source == SLOT_RECORD;
	}
}

static struct cached_block *keep_part(const struct translation *made, unsigned index,
				      uint32_t number, const struct cached_block *before)
{
	const struct translated_part *part = &made->parts[index];
	const struct translated_part none = { .past = made->address };
	const struct translated_part *earlier = index ? part - 1 : &none;
	const bool last = index + 1 == made->part_count;
	struct cached_block *block =
		allocate((unsigned)part->instructions - earlier->instructions,
			 (unsigned)part->references - earlier->references);

	if (!block)
		return NULL;
	copy_lists(made, block, earlier->instructions, earlier->references);
	block->before = before;
	block->code.address = earlier->past;
	block->code.past = part->past;
	block->code.target = last ? made->target : part->target;
	block->code.end = last ? made->end : ENDS_BRANCH;
	block->code.number = number + index;
	block->offset = part->offset;
	block->first = (uint8_t)made->first;
	block->records = part->records;
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

/* All parts.  Returns the first one. */
static struct cached_block *keep(const struct translation *made, uint32_t number)
{
	struct translator *translator = made->translator;
	const struct watcher *watcher = translator->watcher;
	struct cached_block *first = NULL, *before = NULL;

	for (unsigned i = 0; i < made->part_count; i++) {
		struct cached_block *block = keep_part(made, i, number, before);

		if (!block)
			return NULL;
		if (watcher && watcher->translated && made->count)
			block->code.watched = watcher->translated(
				watcher->context, &block->code,
				&made->instructions[i ? made->parts[i - 1].instructions : 0]);
		if (code_cache_add(translator, block) < 0)
			return NULL;
		first = first ? first : block;
		before = block;
	}
	return first;
}

static struct cached_block *translate_one(struct translator *translator, const struct copy *copy,
					  uint64_t address, struct ahead *ahead)
{
	/* Too large for the stack; there is one thread. */
	static struct translation made;
	const uint32_t number = (uint32_t)translator->count, offset = translator->used;

	made.translator = translator;
	made.copy = copy;
	made.emitter = (struct emitter){ translator->code, offset };
	made.address = made.past = address;
	made.count = made.references = made.records = made.part_count = 0;
	made.used = 0;
	made.relative = made.emitted = false;
	made.target = 0;
	made.end = ENDS_CUT;
	if (emit_any(&made, number, ahead) < 0)
		return NULL;
	if (!made.count && code_pages_fetch(translator, copy, address, (uint8_t[16]){ 0 }) == 0) {
		errno = EFAULT;
		return NULL;
	}
	if (!made.emitted) {
		/* An exit alone. */
		made.part_count = 1;
		made.parts[0] = (struct translated_part){
			.instructions = (uint8_t)made.count, .references = (uint8_t)made.references,
			.past = made.past, .offset = offset,
		};
	}
	translator->used = (made.emitter.used + 15) & ~15u;
	return keep(&made, number);
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
