/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "code_page.h"

#include <stdlib.h>

int code_page_note(struct address_map *pages, uint64_t number, struct cached_block *block)
{
	struct code_page *page = address_map_get(pages, number);

	if (!page)
		return 0;
	if (page->count == page->capacity) {
		size_t larger = page->capacity ? 2 * page->capacity : 16;
		struct cached_block **all = realloc(page->blocks, larger * sizeof(struct cached_block *));

		if (!all)
			return -1;
		page->blocks = all;
		page->capacity = larger;
	}
	page->blocks[page->count++] = block;
	return 0;
}

void code_page_forget_all(struct address_map *pages)
{
	for (size_t i = 0; i < pages->capacity; i++) {
		struct code_page *page = pages->entries[i].value;

		if (page)
			free(page->blocks);
		free(page);
	}
	address_map_clear(pages);
}
