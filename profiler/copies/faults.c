/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "faults.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "area.h"
#include "code_pages.h"

static int protection_of(const struct copy_mapping *mapping)
{
	return (mapping->readable ? PROT_READ : 0) | (mapping->writable ? PROT_WRITE : 0) |
	       (mapping->executable ? PROT_EXEC : 0);
}

static int protect(struct copy *copy, const struct user_regs_struct *registers, uint64_t start,
		   uint64_t bytes, int protection)
{
	const uint64_t arguments[6] = { start, bytes, (uint64_t)protection };
	int64_t result = copy_call(copy, registers, SYS_mprotect, arguments);

	if (result < 0)
		errno = result == COPY_LOST ? ESRCH : (int)-result;
	return result < 0 ? -1 : 0;
}

int faults_begin(struct translator *translator, struct copy *copy,
		 const struct user_regs_struct *registers)
{
	for (size_t i = 0; i < translator->mappings.count; i++) {
		const struct copy_mapping *mapping = &translator->mappings.all[i];

		if (mapping->shared && mapping->writable &&
		    protect(copy, registers, mapping->start, mapping->end - mapping->start,
			    protection_of(mapping) & ~PROT_WRITE) < 0)
			return -1;
	}
	return 0;
}

int faults_protect(struct translator *translator, struct copy *copy,
		   const struct user_regs_struct *registers)
{
	if (!translator->unprotected)
		return 0;
	for (size_t i = 0; i < translator->pages.capacity; i++) {
		const struct address_entry *entry = &translator->pages.entries[i];
		const uint64_t start = entry->address << CODE_PAGE_SHIFT;
		struct code_page *page = entry->value;
		const struct copy_mapping *mapping;

		if (!page || !page->writable || page->protected || page->stale)
			continue;
		mapping = copy_mappings_find(&translator->mappings, start);
		if (mapping && protect(copy, registers, start, CODE_PAGE_BYTES,
				       protection_of(mapping) & ~PROT_WRITE) < 0)
			return -1;
		page->protected = true;
	}
	translator->unprotected = 0;
	return 0;
}

static int resolve_code(struct translator *translator, struct copy *copy,
			const struct user_regs_struct *registers, struct code_page *page,
			uint64_t number)
{
	const uint64_t start = number << CODE_PAGE_SHIFT;
	const struct copy_mapping *mapping = copy_mappings_find(&translator->mappings, start);

	if (!mapping || protect(copy, registers, start, CODE_PAGE_BYTES, protection_of(mapping)) < 0 ||
	    code_pages_written(translator, page) < 0 ||
	    code_cache_send(translator, copy) < 0)
		return -1;
	return FAULT_CODE;
}

/* A private page with the same content takes its place. */
static int resolve_shared(struct copy *copy, const struct user_regs_struct *registers,
			  const struct copy_mapping *mapping, uint64_t start)
{
	const uint64_t arguments[6] = {
		start, CODE_PAGE_BYTES, (uint64_t)protection_of(mapping),
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, UINT64_MAX, 0,
	};
	uint8_t content[CODE_PAGE_BYTES];
	int64_t result;

	if (copy_read(copy, start, content, sizeof(content)) < 0)
		return FAULT_FOREIGN;
	result = copy_call(copy, registers, SYS_mmap, arguments);
	if (result < 0) {
		errno = result == COPY_LOST ? ESRCH : (int)-result;
		return -1;
	}
	return copy_write(copy, start, content, sizeof(content)) < 0 ? -1 : FAULT_SHARED;
}

int faults_resolve(struct translator *translator, struct copy *copy,
		   const struct user_regs_struct *registers, uint64_t address)
{
	const uint64_t number = address >> CODE_PAGE_SHIFT;
	struct code_page *page = address_map_get(&translator->pages, number);
	const struct copy_mapping *mapping;

	if (page && page->protected)
		return resolve_code(translator, copy, registers, page, number);
	mapping = copy_mappings_find(&translator->mappings, address);
	if (!mapping || !mapping->shared || !mapping->writable)
		return FAULT_FOREIGN;
	return resolve_shared(copy, registers, mapping, number << CODE_PAGE_SHIFT);
}
