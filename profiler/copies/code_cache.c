/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "code_cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "area.h"
#include "code_page.h"
#include "translator.h"
#include "watcher.h"

#define INT3 0xccu
#define JUMP 0xe9u
/* Bytes of a patch that are sent: enough for a jump. */
#define PATCH_BYTES 8u

extern const uint8_t lookup_begin[], lookup_end[];

static int append(uint32_t **list, size_t *count, size_t *capacity, uint32_t value)
{
	if (*count == *capacity) {
		size_t larger = *capacity ? 2 * *capacity : 256;
		uint32_t *all = realloc(*list, larger * sizeof(*all));

		if (!all)
			return -1;
		*list = all;
		*capacity = larger;
	}
	(*list)[(*count)++] = value;
	return 0;
}

static void start(struct translator *translator)
{
	const size_t bytes = (size_t)(lookup_end - lookup_begin);

	memcpy(translator->code, lookup_begin, bytes);
	translator->used = (uint32_t)(bytes + 63) & ~63u;
	translator->sent = 0;
	translator->count = 0;
	translator->patch_count = translator->slot_count = translator->unprotected = 0;
	memset(translator->table, 0, AREA_TABLE_SLOTS * sizeof(*translator->table));
}

struct translator *translator_make(void)
{
	struct translator *translator = calloc(1, sizeof(*translator));

	if (!translator)
		return NULL;
	translator->code = malloc(AREA_CODE_BYTES);
	translator->table = malloc(AREA_TABLE_SLOTS * sizeof(*translator->table));
	translator->table_code = malloc(AREA_TABLE_SLOTS * sizeof(*translator->table_code));
	if (!translator->code || !translator->table || !translator->table_code) {
		translator_free(translator, NULL);
		errno = ENOMEM;
		return NULL;
	}
	start(translator);
	return translator;
}

void code_cache_clear(struct translator *translator)
{
	const struct watcher *watcher = translator->watcher;

	if (watcher && watcher->clearing)
		watcher->clearing(watcher->context);
	for (size_t i = 0; i < translator->count; i++) {
		struct cached_block *block = translator->blocks[i];

		if (watcher && watcher->forgotten && block->code.watched)
			watcher->forgotten(watcher->context, block->code.watched);
		free(block);
	}
	address_map_clear(&translator->by_address);
	for (size_t i = 0; i < translator->exits.capacity; i++)
		free(translator->exits.entries[i].value);
	address_map_clear(&translator->exits);
	code_page_forget_all(&translator->pages);
	start(translator);
}

void translator_free(struct translator *translator, const struct watcher *watcher)
{
	if (!translator)
		return;
	translator->watcher = watcher;
	if (translator->code && translator->table)
		code_cache_clear(translator);
	copy_mappings_free(&translator->mappings);
	address_map_free(&translator->by_address);
	address_map_free(&translator->exits);
	address_map_free(&translator->pages);
	free(translator->blocks);
	free(translator->patches);
	free(translator->slots);
	free(translator->table);
	free(translator->table_code);
	free(translator->code);
	free(translator);
}

bool code_cache_full(const struct translator *translator)
{
	return translator->used > AREA_CODE_BYTES - 64 * CODE_CACHE_BLOCK_BYTES ||
	       translator->count > AREA_TABLE_SLOTS / 2;
}

static uint32_t slot_of(const struct translator *translator, uint64_t address)
{
	/* As lookup.S. */
	uint32_t slot = (uint32_t)((address * AREA_HASH_FACTOR) >> AREA_HASH_SHIFT) &
			(AREA_TABLE_SLOTS - 1);

	while (translator->table[slot] && translator->table[slot] != address)
		slot = (slot + 1) & (AREA_TABLE_SLOTS - 1);
	return slot;
}

int code_cache_add(struct translator *translator, struct cached_block *block)
{
	const uint64_t address = block->code.address;
	const uint64_t last = block->code.past > address ? block->code.past - 1 : address;
	uint32_t slot = slot_of(translator, address);

	if (translator->count == translator->capacity) {
		size_t larger = translator->capacity ? 2 * translator->capacity : 1024;
		struct cached_block **all = realloc(translator->blocks,
						    larger * sizeof(struct cached_block *));

		if (!all)
			return -1;
		translator->blocks = all;
		translator->capacity = larger;
	}
	translator->blocks[translator->count++] = block;
	/* There is no other way to it, and it is in the same page. */
	if (block->before)
		return 0;
	if (append(&translator->slots, &translator->slot_count, &translator->slot_capacity, slot) < 0 ||
	    address_map_set(&translator->by_address, address, block) < 0)
		return -1;
	translator->table[slot] = address;
	translator->table_code[slot] = block->offset;
	for (uint64_t page = address >> CODE_PAGE_SHIFT; page <= last >> CODE_PAGE_SHIFT; page++)
		if (code_page_note(&translator->pages, page, block) < 0)
			return -1;
	return 0;
}

int code_cache_add_exit(struct translator *translator, uint32_t offset,
			const struct code_exit *code_exit)
{
	struct code_exit *kept = malloc(sizeof(*kept));

	if (!kept)
		return -1;
	*kept = *code_exit;
	free(address_map_get(&translator->exits, offset));
	return address_map_set(&translator->exits, offset, kept);
}

static int patch(struct translator *translator, uint32_t offset)
{
	if (offset >= translator->sent)
		return 0;
	return append(&translator->patches, &translator->patch_count, &translator->patch_capacity,
		      offset);
}

int code_cache_chain(struct translator *translator, uint32_t exit_offset,
		     const struct cached_block *block)
{
	struct code_exit *code_exit = address_map_get(&translator->exits, exit_offset);
	uint32_t at, distance;

	if (!code_exit)
		return 0;
	if (code_exit->kind == EXIT_AGAIN) {
		translator->code[exit_offset] = JUMP;
		at = exit_offset + 1;
	} else if (code_exit->kind == EXIT_CONTINUES && code_exit->jump) {
		at = code_exit->jump;
	} else {
		return 0;
	}
	distance = block->offset - (at + 4);
	memcpy(translator->code + at, &distance, sizeof(distance));
	if (code_exit->kind == EXIT_AGAIN)
		at = exit_offset;
	free(code_exit);
	return address_map_set(&translator->exits, exit_offset, NULL) < 0 ? -1 :
									    patch(translator, at);
}

int code_cache_drop(struct translator *translator, const struct cached_block *block)
{
	const struct code_exit again = { .kind = EXIT_AGAIN, .target = block->code.address };

	/* It may have been dropped for another page. */
	if (address_map_get(&translator->by_address, block->code.address) != block)
		return 0;
	address_map_set(&translator->by_address, block->code.address, NULL);
	translator->code[block->offset] = INT3;
	return code_cache_add_exit(translator, block->offset, &again) < 0 ?
		       -1 : patch(translator, block->offset);
}

const struct cached_block *code_cache_at(const struct translator *translator, uint32_t offset)
{
	size_t low = 0, high = translator->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (translator->blocks[middle]->offset <= offset)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? translator->blocks[low - 1] : NULL;
}

static int send_table(struct translator *translator, const struct copy *copy)
{
	const size_t bytes = AREA_TABLE_SLOTS * sizeof(uint64_t);
	uint64_t *code = malloc(bytes);
	int rc;

	if (!code)
		return -1;
	for (size_t i = 0; i < AREA_TABLE_SLOTS; i++)
		code[i] = translator->table[i] ?
				  translator->area + AREA_CODE + translator->table_code[i] :
				  0;
	rc = copy_write(copy, translator->area + AREA_TABLE, translator->table, bytes);
	if (rc == 0)
		rc = copy_write(copy, translator->area + AREA_TABLE_CODE, code, bytes);
	free(code);
	return rc;
}

int code_cache_begin(struct translator *translator, const struct copy *copy)
{
	translator->sent = 0;
	translator->patch_count = translator->slot_count = 0;
	if (translator->count && send_table(translator, copy) < 0)
		return -1;
	return code_cache_send(translator, copy);
}

int code_cache_send(struct translator *translator, const struct copy *copy)
{
	const uint64_t code = translator->area + AREA_CODE;

	if (translator->used > translator->sent) {
		if (copy_write(copy, code + translator->sent, translator->code + translator->sent,
			       translator->used - translator->sent) < 0)
			return -1;
		translator->sent = translator->used;
	}
	for (size_t i = 0; i < translator->patch_count; i++) {
		const uint32_t at = translator->patches[i];

		if (copy_write(copy, code + at, translator->code + at, PATCH_BYTES) < 0)
			return -1;
	}
	for (size_t i = 0; i < translator->slot_count; i++) {
		const uint64_t slot = translator->slots[i];
		const uint64_t to = code + translator->table_code[slot];

		if (copy_write(copy, translator->area + AREA_TABLE + 8 * slot,
			       &translator->table[slot], 8) < 0 ||
		    copy_write(copy, translator->area + AREA_TABLE_CODE + 8 * slot, &to, 8) < 0)
			return -1;
	}
	translator->patch_count = translator->slot_count = 0;
	return 0;
}
