/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "shared_memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "copy_mappings.h"
#include "sysfile.h"

#define MOST_BYTES (UINT64_C(1) << 30)
#define PAGE UINT64_C(4096)
/* What is filled at once: each takes up to three calls of the copy. */
#define CHUNK (UINT64_C(64) << 10)
/* Mappings are moved to here, where the kernel gives programs no memory of its own choice. */
#define SHADOWS UINT64_C(0x200000000000)

static int64_t call(struct copy *copy, const struct user_regs_struct *registers, long number,
		    uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e)
{
	const int64_t result = copy_call(copy, registers, number,
					 (const uint64_t[6]){ a, b, c, d, e });

	if (result < 0)
		errno = result == COPY_LOST ? ESRCH : (int)-result;
	return result;
}

static int protect(struct copy *copy, const struct user_regs_struct *registers, uint64_t start,
		   uint64_t bytes, int protection)
{
	return call(copy, registers, SYS_mprotect, start, bytes, (uint64_t)protection, 0, 0) < 0 ?
		-1 : 0;
}

/* Can it be written by nobody, as its file was opened for reading? */
static bool is_sealed(struct copy *copy, const struct user_regs_struct *registers,
		      const struct copy_mapping *mapping)
{
	return !mapping->writable &&
	       protect(copy, registers, mapping->start, PAGE, PROT_READ | PROT_WRITE) < 0 &&
	       errno == EACCES;
}

/* Memory that has no file on a disk: by its name, or by the file system that it is on. */
static bool has_holes(const struct copy *copy, const struct copy_mapping *mapping)
{
	static const char *const names[] = { "/memfd:", "/SYSV", "/dev/zero", "/dev/shm/" };
	char line[4352];
	unsigned major, minor;
	bool found = false;
	FILE *mounts;

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (strncmp(mapping->name, names[i], strlen(names[i])) == 0)
			return true;
	mounts = sysfile_open("/proc/%d/mountinfo", (int)copy->pid);
	while (mounts && !found && fgets(line, sizeof(line), mounts))
		found = sscanf(line, "%*u %*u %u:%u", &major, &minor) == 2 &&
			major == mapping->major && minor == mapping->minor &&
			strstr(line, " - tmpfs ");
	if (mounts)
		fclose(mounts);
	return found;
}

/* Through the kernel, which refuses that for devices' memory. */
static bool is_readable(const struct copy *copy, const struct copy_mapping *mapping)
{
	uint8_t byte;

	return has_holes(copy, mapping) || copy_read(copy, mapping->start, &byte, 1) == 0;
}

static int unmap(struct copy *copy, const struct user_regs_struct *registers,
		 const struct copy_mapping *mapping)
{
	return call(copy, registers, SYS_munmap, mapping->start, mapping->end - mapping->start, 0,
		    0, 0) < 0 ? -1 : 0;
}

static struct shared_range *add(struct shared_memory *memory, const struct copy *copy,
				const struct copy_mapping *mapping)
{
	struct shared_range *all = reallocarray(memory->all, memory->count + 1, sizeof(*all));

	if (!all)
		return NULL;
	memory->all = all;
	all[memory->count] = (struct shared_range){
		.start = mapping->start, .end = mapping->end,
		.protection = (mapping->readable ? PROT_READ : 0) |
			      (mapping->writable ? PROT_WRITE : 0) |
			      (mapping->executable ? PROT_EXEC : 0),
		.has_holes = has_holes(copy, mapping),
	};
	return &all[memory->count++];
}

/* Move it out of reach, and leave a mapping at its place in which each access faults. */
static int move_away(struct copy *copy, const struct user_regs_struct *registers,
		     struct shared_range *range, uint64_t hint)
{
	const uint64_t bytes = range->end - range->start;
	const uint64_t nothing = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
	const int64_t place = call(copy, registers, SYS_mmap, hint, bytes, PROT_NONE, nothing,
				   UINT64_MAX);

	range->filled = calloc((bytes + CHUNK - 1) / CHUNK, 1);
	if (place < 0 || !range->filled ||
	    call(copy, registers, SYS_mremap, range->start, bytes, bytes,
		 MREMAP_MAYMOVE | MREMAP_FIXED, (uint64_t)place) < 0 ||
	    protect(copy, registers, (uint64_t)place, bytes, PROT_READ) < 0 ||
	    call(copy, registers, SYS_mmap, range->start, bytes, PROT_NONE, nothing | MAP_FIXED,
		 UINT64_MAX) < 0)
		return -1;
	range->shadow = (uint64_t)place;
	return 0;
}

/*
 * Read a chunk at `start` of the range, without holes: these are zeros.  The kernel says which pages
 * there are; it writes that to the copy's memory at `scratch`.  Pages that are swapped out are zeros,
 * too.
 */
static int read_chunk(const struct shared_range *range, struct copy *copy,
		      const struct user_regs_struct *registers, uint64_t from, uint64_t bytes,
		      uint64_t scratch, uint8_t *content)
{
	uint8_t present[CHUNK / PAGE];
	const uint64_t pages = (bytes + PAGE - 1) / PAGE;

	memset(content, 0, bytes);
	memset(present, 1, sizeof(present));
	if (range->has_holes &&
	    (call(copy, registers, SYS_mincore, from, bytes, scratch, 0, 0) < 0 ||
	     copy_read(copy, scratch, present, pages) < 0))
		return -1;
	/* Beyond the end of a file there is nothing: an access is a fault either way. */
	for (uint64_t i = 0; i < pages; i++)
		if (present[i] & 1)
			copy_read(copy, from + i * PAGE, content + i * PAGE, PAGE);
	return 0;
}

/* Returns 1; 0 if there is no content; or -1 with errno. */
static int fill_chunk(struct shared_range *range, struct copy *copy,
		      const struct user_regs_struct *registers, uint64_t number)
{
	static uint8_t content[CHUNK];
	const uint64_t start = range->start + number * CHUNK;
	const uint64_t bytes = range->end - start < CHUNK ? range->end - start : CHUNK;
	const int writable = PROT_READ | PROT_WRITE;

	range->filled[number] = 1;
	if (protect(copy, registers, start, bytes, writable) < 0 ||
	    read_chunk(range, copy, registers, range->shadow + number * CHUNK, bytes, start,
		       content) < 0 ||
	    copy_write(copy, start, content, bytes) < 0)
		return -1;
	if (range->protection != writable &&
	    protect(copy, registers, start, bytes, range->protection) < 0)
		return -1;
	return 1;
}

static int fill_at_once(struct shared_memory *memory, struct copy *copy,
			const struct user_regs_struct *registers, struct shared_range *range)
{
	const uint64_t bytes = range->end - range->start;

	if (shared_memory_fill(memory, copy, registers, range->start, bytes) < 0 ||
	    call(copy, registers, SYS_munmap, range->shadow, bytes, 0, 0, 0) < 0)
		return -1;
	range->shadow = 0;
	return 0;
}

/* With a gap between them: neighbours of one file would become one mapping. */
static uint64_t next_shadow(const struct shared_memory *memory)
{
	uint64_t next = SHADOWS;

	for (size_t i = 0; i < memory->count; i++)
		if (memory->all[i].shadow)
			next += memory->all[i].end - memory->all[i].start + PAGE;
	return next;
}

/* Returns 0, or -1 with errno. */
static int isolate(struct shared_memory *memory, struct copy *copy,
		   const struct user_regs_struct *registers, const struct copy_mapping *mapping,
		   bool lazily)
{
	const uint64_t bytes = mapping->end - mapping->start;
	const bool sealed = is_sealed(copy, registers, mapping);
	struct shared_range *range;

	if (!sealed && protect(copy, registers, mapping->start, bytes, PROT_READ) < 0)
		return unmap(copy, registers, mapping);
	if ((!sealed || mapping->readable) && !is_readable(copy, mapping))
		return unmap(copy, registers, mapping);
	range = add(memory, copy, mapping);
	if (!range)
		return -1;
	if (sealed)
		return 0;
	/* Code is translated before it is executed: it has to be there. */
	if (mapping->executable)
		lazily = false;
	if ((!lazily && bytes > MOST_BYTES) ||
	    move_away(copy, registers, range, next_shadow(memory)) < 0)
		return unmap(copy, registers, mapping);
	return lazily ? 0 : fill_at_once(memory, copy, registers, range);
}

static bool is_known(const struct shared_memory *memory, const struct copy_mapping *mapping)
{
	for (size_t i = 0; i < memory->count; i++) {
		const struct shared_range *range = &memory->all[i];
		const uint64_t start = range->shadow ? range->shadow : range->start;

		if (mapping->start >= start && mapping->end <= start + (range->end - range->start))
			return true;
	}
	return false;
}

/* Default deny: whatever is shared now and was not sealed or moved away is in the way of a run. */
static int verify(const struct shared_memory *memory, const struct copy *copy)
{
	struct copy_mappings mappings;
	int rc = copy_mappings_read(&mappings, copy->pid);

	for (size_t i = 0; rc == 0 && i < mappings.count; i++) {
		const struct copy_mapping *mapping = &mappings.all[i];

		if (mapping->shared && (mapping->writable || !is_known(memory, mapping))) {
			errno = EPERM;
			rc = -1;
		}
	}
	copy_mappings_free(&mappings);
	return rc;
}

int shared_memory_isolate(struct shared_memory *memory, struct copy *copy,
			  const struct user_regs_struct *registers, bool lazily)
{
	struct copy_mappings mappings;
	bool any = false;
	int rc = 0;

	*memory = (struct shared_memory){ NULL, 0 };
	if (copy_mappings_read(&mappings, copy->pid) < 0)
		return -1;
	for (size_t i = 0; rc == 0 && i < mappings.count; i++)
		if (mappings.all[i].shared) {
			any = true;
			rc = isolate(memory, copy, registers, &mappings.all[i], lazily);
		}
	copy_mappings_free(&mappings);
	return rc == 0 && any ? verify(memory, copy) : rc;
}

void shared_memory_free(struct shared_memory *memory)
{
	for (size_t i = 0; i < memory->count; i++)
		free(memory->all[i].filled);
	free(memory->all);
	*memory = (struct shared_memory){ NULL, 0 };
}

/* A length that leads beyond the end of all addresses reaches it. */
static bool overlap(uint64_t start, uint64_t bytes, uint64_t from, uint64_t end)
{
	return start < end && (start >= from || bytes > from - start);
}

bool shared_memory_overlaps(const struct shared_memory *memory, uint64_t start, uint64_t bytes)
{
	if (!bytes)
		bytes = 1;
	for (size_t i = 0; i < memory->count; i++) {
		const struct shared_range *range = &memory->all[i];

		if (overlap(start, bytes, range->start, range->end) ||
		    (range->shadow && overlap(start, bytes, range->shadow,
					      range->shadow + (range->end - range->start))))
			return true;
	}
	return false;
}

int shared_memory_fill(struct shared_memory *memory, struct copy *copy,
		       const struct user_regs_struct *registers, uint64_t start, uint64_t bytes)
{
	int any = 0;

	for (size_t i = 0; i < memory->count; i++) {
		struct shared_range *range = &memory->all[i];
		uint64_t from, last;

		if (!range->shadow || !bytes || !overlap(start, bytes, range->start, range->end))
			continue;
		from = start > range->start ? (start - range->start) / CHUNK : 0;
		last = start + bytes < range->end ? start + bytes - 1 : range->end - 1;
		for (uint64_t n = from; n <= (last - range->start) / CHUNK; n++) {
			const int rc = range->filled[n] ? 0 :
				fill_chunk(range, copy, registers, n);

			if (rc < 0)
				return -1;
			any |= rc;
		}
	}
	return any;
}
