/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "private_memory.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "copy_mappings.h"

#define MOST_TEXT_BYTES (UINT64_C(256) << 20)
#define CHUNK (UINT64_C(1) << 20)
#define BASE_PAGE UINT64_C(4096)

/* 0, or -1 with errno. */
static int result_of(int64_t result)
{
	if (result >= 0)
		return 0;
	errno = result == COPY_LOST ? ESRCH : (int)-result;
	return -1;
}

static int unmap(struct copy *copy, const struct user_regs_struct *registers, uint64_t start,
		 uint64_t end)
{
	if (start == end)
		return 0;
	return result_of(copy_call(copy, registers, SYS_munmap,
				   (const uint64_t[6]){ start, end - start }));
}

/* Memory without pages yet, aligned.  Returns its address, or 0 with errno. */
static uint64_t reserve(struct copy *copy, const struct user_regs_struct *registers, uint64_t bytes,
			uint64_t alignment)
{
	const int64_t mapped = copy_call(copy, registers, SYS_mmap, (const uint64_t[6]){
		0, bytes + alignment, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, UINT64_MAX });
	uint64_t from, start;

	if (result_of(mapped) < 0)
		return 0;
	from = (uint64_t)mapped;
	start = alignment ? (from + alignment - 1) / alignment * alignment : from;
	if (unmap(copy, registers, from, start) < 0 ||
	    unmap(copy, registers, start + bytes, from + bytes + alignment) < 0)
		return 0;
	return start;
}

static bool is_zero(const uint8_t *content, size_t bytes)
{
	return !content[0] && memcmp(content, content + 1, bytes - 1) == 0;
}

/* `zeros`: these are written, too. */
static int fill(const struct copy *copy, uint64_t to, uint64_t from, uint64_t bytes, bool zeros)
{
	uint8_t *content = malloc(CHUNK);
	int rc = content ? 0 : -1;

	for (uint64_t at = 0; rc == 0 && at < bytes; at += CHUNK) {
		const size_t part = bytes - at < CHUNK ? (size_t)(bytes - at) : CHUNK;

		/* Beyond the end of a file there is nothing: an access is a fault either way. */
		if (copy_read(copy, from + at, content, part) < 0)
			memset(content, 0, part);
		if (zeros || !is_zero(content, part))
			rc = copy_write(copy, to + at, content, part);
	}
	free(content);
	return rc;
}

int private_memory_replace(struct copy *copy, const struct user_regs_struct *registers,
			   uint64_t start, uint64_t end, uint64_t protection, uint64_t page_bytes)
{
	const uint64_t bytes = end - start;
	const bool huge = page_bytes > BASE_PAGE;
	const uint64_t new = reserve(copy, registers, bytes, huge ? page_bytes : 0);

	if (!new)
		return -1;
	/* Where the kernel has no huge pages, the process's backing shows that there are none. */
	if (huge && copy_call(copy, registers, SYS_madvise,
			      (const uint64_t[6]){ new, bytes, MADV_HUGEPAGE }) == COPY_LOST)
		return result_of(COPY_LOST);
	if (fill(copy, new, start, bytes, page_bytes != 0) < 0 ||
	    result_of(copy_call(copy, registers, SYS_mprotect,
				(const uint64_t[6]){ new, bytes, protection })) < 0)
		return -1;
	return result_of(copy_call(copy, registers, SYS_mremap, (const uint64_t[6]){
		new, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, start }));
}

int private_memory_text(struct copy *copy, const struct user_regs_struct *registers,
			uint64_t least_bytes)
{
	struct copy_mappings mappings;
	int rc = 0;

	if (copy_mappings_read(&mappings, copy->pid) < 0)
		return -1;
	for (size_t i = 0; rc == 0 && i < mappings.count; i++) {
		const struct copy_mapping *mapping = &mappings.all[i];
		const uint64_t bytes = mapping->end - mapping->start;

		if (mapping->inode && mapping->executable && mapping->readable &&
		    bytes >= least_bytes && bytes <= MOST_TEXT_BYTES)
			rc = private_memory_replace(copy, registers, mapping->start, mapping->end,
						    PROT_READ | PROT_WRITE | PROT_EXEC, 0);
	}
	copy_mappings_free(&mappings);
	return rc;
}
