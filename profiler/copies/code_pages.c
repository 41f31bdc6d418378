/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "code_pages.h"

#include <stdlib.h>
#include <string.h>

/* Do writes to the page have to be noticed? */
static void look_at_mapping(struct translator *translator, uint64_t address, struct code_page *page)
{
	const struct copy_mapping *mapping = copy_mappings_find(&translator->mappings, address);

	page->writable = mapping && mapping->writable && !mapping->shared;
	page->protected = false;
	if (page->writable)
		translator->unprotected++;
}

static struct code_page *page_at(struct translator *translator, const struct copy *copy,
				 uint64_t number)
{
	struct code_page *page = address_map_get(&translator->pages, number);

	if (page && !page->stale)
		return page;
	if (page) {
		page->stale = false;
		look_at_mapping(translator, number << CODE_PAGE_SHIFT, page);
		return copy_read(copy, number << CODE_PAGE_SHIFT, page->bytes,
				 sizeof(page->bytes)) < 0 ? NULL : page;
	}
	page = calloc(1, sizeof(*page));
	if (!page)
		return NULL;
	if (copy_read(copy, number << CODE_PAGE_SHIFT, page->bytes, sizeof(page->bytes)) < 0 ||
	    address_map_set(&translator->pages, number, page) < 0) {
		free(page);
		return NULL;
	}
	look_at_mapping(translator, number << CODE_PAGE_SHIFT, page);
	return page;
}

size_t code_pages_fetch(struct translator *translator, const struct copy *copy, uint64_t address,
			uint8_t bytes[16])
{
	size_t have = 0;

	while (have < 16) {
		const uint64_t here = address + have;
		const size_t offset = here & (CODE_PAGE_BYTES - 1);
		const struct code_page *page = page_at(translator, copy, here >> CODE_PAGE_SHIFT);
		size_t count = CODE_PAGE_BYTES - offset;

		if (!page)
			break;
		if (count > 16 - have)
			count = 16 - have;
		memcpy(bytes + have, page->bytes + offset, count);
		have += count;
	}
	return have;
}

/* The page changed: its blocks must not run again. */
static int drop_blocks(struct translator *translator, struct code_page *page)
{
	int rc = 0;

	for (size_t i = 0; i < page->count && rc == 0; i++)
		rc = code_cache_drop(translator, page->blocks[i]);
	page->count = 0;
	return rc;
}

int code_pages_written(struct translator *translator, struct code_page *page)
{
	page->stale = true;
	page->protected = false;
	return drop_blocks(translator, page);
}

static int check(struct translator *translator, const struct copy *copy)
{
	uint8_t now[CODE_PAGE_BYTES];

	translator->unprotected = 0;
	for (size_t i = 0; i < translator->pages.capacity; i++) {
		const struct address_entry *entry = &translator->pages.entries[i];
		const uint64_t address = entry->address << CODE_PAGE_SHIFT;
		struct code_page *page = entry->value;

		if (!page)
			continue;
		page->stale = false;
		look_at_mapping(translator, address, page);
		if (copy_read(copy, address, now, sizeof(now)) == 0 &&
		    memcmp(now, page->bytes, sizeof(now)) == 0)
			continue;
		if (drop_blocks(translator, page) < 0)
			return -1;
		memcpy(page->bytes, now, sizeof(now));
	}
	return 0;
}

int code_pages_begin(struct translator *translator, const struct copy *copy)
{
	translator->sent = 0;
	copy_mappings_free(&translator->mappings);
	if (copy_mappings_read(&translator->mappings, copy->pid) < 0 || check(translator, copy) < 0)
		return -1;
	return code_cache_begin(translator, copy);
}
