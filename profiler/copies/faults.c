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

int faults_resolve(struct translator *translator, struct copy *copy, struct shared_memory *shared,
		   const struct user_regs_struct *registers, uint64_t address)
{
	const uint64_t number = address >> CODE_PAGE_SHIFT;
	struct code_page *page = address_map_get(&translator->pages, number);
	int filled;

	if (page && page->protected)
		return resolve_code(translator, copy, registers, page, number);
	/* An operand may lie across two chunks: its other half faults next. */
	filled = shared_memory_fill(shared, copy, registers, address, 1);
	return filled < 0 ? -1 : filled ? FAULT_SHARED : FAULT_FOREIGN;
}
