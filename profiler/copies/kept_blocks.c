/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "kept_blocks.h"

#include <stdlib.h>
#include <string.h>

/* Enough for a window of code that is mostly references. */
#define FIRST_WORDS (1u << 20)

static size_t words_of(const struct code_block *block)
{
	return sizeof(struct kept_block) / sizeof(uint64_t) + block->reference_count;
}

/* Move what is there to the beginning; get more memory if it still takes more than half. */
static int make_room(struct kept_blocks *kept, size_t words)
{
	const size_t used = kept->tail - kept->head;
	size_t larger = kept->capacity ? kept->capacity : FIRST_WORDS;
	uint64_t *all;

	if (used)
		memmove(kept->words, kept->words + kept->head, used * sizeof(*kept->words));
	kept->head = 0;
	kept->tail = used;
	if (kept->capacity && used + words <= kept->capacity / 2)
		return 0;
	while (used + words > larger / 2)
		larger *= 2;
	all = realloc(kept->words, larger * sizeof(*all));
	if (!all)
		return -1;
	kept->words = all;
	kept->capacity = larger;
	return 0;
}

int kept_blocks_add(struct kept_blocks *kept, const struct code_block *block,
		    const uint64_t *addresses, uint64_t next)
{
	const size_t words = words_of(block);
	struct kept_block *last;

	if (kept->tail + words > kept->capacity && make_room(kept, words) < 0)
		return -1;
	last = (struct kept_block *)(void *)(kept->words + kept->tail);
	last->block = block;
	last->next = next;
	for (unsigned i = 0; i < block->reference_count; i++)
		last->addresses[i] = addresses[i];
	kept->tail += words;
	kept->references += block->reference_count;
	kept->instructions += block->instruction_count;
	return 0;
}

const struct kept_block *kept_blocks_take(struct kept_blocks *kept)
{
	const struct kept_block *oldest;

	if (kept->head == kept->tail)
		return NULL;
	oldest = (const struct kept_block *)(const void *)(kept->words + kept->head);
	kept->head += words_of(oldest->block);
	kept->references -= oldest->block->reference_count;
	kept->instructions -= oldest->block->instruction_count;
	return oldest;
}

void kept_blocks_clear(struct kept_blocks *kept)
{
	kept->head = kept->tail = 0;
	kept->references = kept->instructions = 0;
}

void kept_blocks_free(struct kept_blocks *kept)
{
	free(kept->words);
	*kept = (struct kept_blocks){ NULL, 0, 0, 0, 0, 0 };
}
