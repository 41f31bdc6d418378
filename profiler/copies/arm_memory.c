/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "arm_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "copy_mappings.h"
#include "sysfile.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define PAGE UINT64_C(4096)
/* Of /proc/PID/pagemap. */
#define PRESENT (UINT64_C(1) << 63)
#define SWAPPED (UINT64_C(1) << 62)
#define ENTRIES 8192u
/* Of kernels that cannot skip what is reserved: a mapping that is read page by page. */
#define MOST_READ_BYTES (UINT64_C(1) << 40)
/* Holes that are filled rather than walked around. */
#define SMALL_HOLE (8 * PAGE)
/* Larger shared mappings stay as they are, unwritable. */
#define MOST_UNSHARED_BYTES (UINT64_C(1) << 30)
/* Code that is read ahead, so that it causes no faults. */
#define MOST_CODE_BYTES (UINT64_C(256) << 20)
#define MOST_COMPARED_PAGES 16384u
#define RETRIES 5

static int add_run(struct page_runs *runs, uint64_t start, uint64_t end,
		   const struct copy_mapping *mapping)
{
	struct page_run *last = runs->count ? &runs->all[runs->count - 1] : NULL;

	runs->bytes += end - start;
	if (last && last->mapping_start == mapping->start && start - last->end <= SMALL_HOLE) {
		last->end = end;
		return 0;
	}
	if (runs->count == runs->capacity) {
		const size_t larger = runs->capacity ? 2 * runs->capacity : 256;
		struct page_run *all = realloc(runs->all, larger * sizeof(*all));

		if (!all)
			return -1;
		runs->all = all;
		runs->capacity = larger;
	}
	runs->all[runs->count++] =
		(struct page_run){ start, end, mapping->start, mapping->end };
	return 0;
}

/* Memory that THP serves, and that a process has for itself. */
static bool is_anonymous(const struct copy_mapping *mapping)
{
	return !mapping->inode && !mapping->shared && mapping->readable && mapping->writable &&
	       strncmp(mapping->name, "[v", 2) != 0;
}

/* PAGEMAP_SCAN, Linux 6.7: skips what is only reserved, which may be terabytes. */
struct scanned {
	uint64_t start, end, categories;
};

struct scan {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define SCAN _IOWR('f', 16, struct scan)
#define IS_PRESENT (UINT64_C(1) << 3)
#define IS_SWAPPED (UINT64_C(1) << 4)
#define SCANNED 256u

static int scan_mapping(struct page_runs *runs, int pagemap, const struct copy_mapping *mapping)
{
	struct scanned found[SCANNED];
	struct scan scan = {
		.size = sizeof(scan), .start = mapping->start, .end = mapping->end,
		.vec = (uintptr_t)found, .vec_len = SCANNED,
		.category_anyof_mask = IS_PRESENT | IS_SWAPPED,
		.return_mask = IS_PRESENT | IS_SWAPPED,
	};

	while (scan.start < scan.end) {
		const int count = ioctl(pagemap, SCAN, &scan);

		if (count < 0)
			return -1;
		for (int i = 0; i < count; i++)
			if (add_run(runs, found[i].start, found[i].end, mapping) < 0)
				return -1;
		scan.start = scan.walk_end;
	}
	return 0;
}

static int read_mapping(struct page_runs *runs, int pagemap, const struct copy_mapping *mapping)
{
	uint64_t entries[ENTRIES];

	for (uint64_t at = mapping->start; at < mapping->end;) {
		const uint64_t left = (mapping->end - at) / PAGE;
		const size_t count = left < ENTRIES ? (size_t)left : ENTRIES;
		const ssize_t got = pread(pagemap, entries, count * sizeof(entries[0]),
					  (off_t)(at / PAGE * sizeof(entries[0])));

		if (got <= 0)
			return got < 0 ? -1 : 0;
		for (size_t i = 0; i < (size_t)got / sizeof(entries[0]); i++, at += PAGE) {
			if (entries[i] & (PRESENT | SWAPPED) &&
			    add_run(runs, at, at + PAGE, mapping) < 0)
				return -1;
		}
	}
	return 0;
}

static int add_mapping(struct page_runs *runs, int pagemap, const struct copy_mapping *mapping)
{
	static bool cannot_scan;

	if (!cannot_scan && scan_mapping(runs, pagemap, mapping) == 0)
		return 0;
	if (!cannot_scan && errno != ENOTTY && errno != EINVAL)
		return -1;
	cannot_scan = true;
	/* Nobody has as much memory: it is reserved. */
	return mapping->end - mapping->start > MOST_READ_BYTES ? 0 :
								 read_mapping(runs, pagemap, mapping);
}

int page_runs_read(struct page_runs *runs, pid_t pid)
{
	struct copy_mappings mappings;
	char path[64];
	int pagemap, rc = 0;

	*runs = (struct page_runs){ NULL, 0, 0, 0 };
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	pagemap = open(path, O_RDONLY | O_CLOEXEC);
	if (pagemap < 0)
		return -1;
	if (copy_mappings_read(&mappings, pid) < 0) {
		close(pagemap);
		return -1;
	}
	for (size_t i = 0; rc == 0 && i < mappings.count; i++)
		if (is_anonymous(&mappings.all[i]))
			rc = add_mapping(runs, pagemap, &mappings.all[i]);
	copy_mappings_free(&mappings);
	close(pagemap);
	return rc;
}

void page_runs_free(struct page_runs *runs)
{
	free(runs->all);
	*runs = (struct page_runs){ NULL, 0, 0, 0 };
}

int arm_backing_read(struct arm_backing *backing, pid_t pid)
{
	FILE *file = sysfile_open("/proc/%d/smaps_rollup", (int)pid);
	unsigned long long kib;
	char line[256];

	*backing = (struct arm_backing){ 0, 0 };
	if (!file)
		return -1;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Anonymous: %llu", &kib) == 1)
			backing->anonymous_bytes = kib << 10;
		else if (sscanf(line, "AnonHugePages: %llu", &kib) == 1)
			backing->huge_bytes = kib << 10;
	}
	fclose(file);
	return 0;
}

static int failed(int64_t result)
{
	errno = result == COPY_LOST ? ESRCH : (int)-result;
	return -1;
}

static int unshare_mapping(struct arm *arm, const struct copy_mapping *mapping)
{
	const uint64_t bytes = mapping->end - mapping->start;
	const uint64_t protection = PROT_READ | PROT_WRITE | (mapping->executable ? PROT_EXEC : 0u);
	const uint64_t arguments[6] = {
		mapping->start, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, UINT64_MAX,
	};
	const size_t chunk = 1u << 20;
	int64_t result;
	uint8_t *content;
	int rc = 0;

	if (!mapping->readable || bytes > MOST_UNSHARED_BYTES) {
		result = arm_call(arm, SYS_mprotect, mapping->start, bytes,
				  mapping->readable ? PROT_READ : PROT_NONE, 0);
		return result < 0 ? failed(result) : 0;
	}
	content = malloc(bytes);
	if (!content)
		return -1;
	for (uint64_t at = 0; rc == 0 && at < bytes; at += chunk) {
		const size_t part = bytes - at < chunk ? (size_t)(bytes - at) : chunk;

		/* Beyond the end of a file there is nothing: an access is a fault either way. */
		if (copy_read(&arm->copy, mapping->start + at, content + at, part) < 0)
			memset(content + at, 0, part);
	}
	result = copy_call(&arm->copy, &arm->registers, SYS_mmap, arguments);
	if (result < 0)
		rc = failed(result);
	for (uint64_t at = 0; rc == 0 && at < bytes; at += chunk)
		rc = copy_write(&arm->copy, mapping->start + at, content + at,
				bytes - at < chunk ? (size_t)(bytes - at) : chunk);
	free(content);
	return rc;
}

int arm_memory_unshare(struct arm *arm)
{
	struct copy_mappings mappings;
	int rc = 0;

	if (copy_mappings_read(&mappings, arm->copy.pid) < 0)
		return -1;
	for (size_t i = 0; rc == 0 && i < mappings.count; i++)
		if (mappings.all[i].shared && mappings.all[i].writable)
			rc = unshare_mapping(arm, &mappings.all[i]);
	copy_mappings_free(&mappings);
	return rc;
}

static int64_t advise(struct arm *arm, uint64_t start, uint64_t end, int advice)
{
	int64_t result = 0;

	for (int i = 0; i < RETRIES && start < end; i++) {
		result = arm_call(arm, SYS_madvise, start, end - start, (uint64_t)advice, 0);
		if (result != -EAGAIN)
			break;
	}
	return result;
}

/* So that code and constants cause no faults while it is timed. */
static void populate_files(struct arm *arm, const struct copy_mappings *mappings)
{
	for (size_t i = 0; i < mappings->count; i++) {
		const struct copy_mapping *mapping = &mappings->all[i];

		if (mapping->inode && mapping->readable && mapping->executable &&
		    mapping->end - mapping->start <= MOST_CODE_BYTES)
			advise(arm, mapping->start, mapping->end, MADV_POPULATE_READ);
		else if (mapping->inode && mapping->writable && !mapping->shared &&
			 mapping->end - mapping->start <= MOST_CODE_BYTES)
			advise(arm, mapping->start, mapping->end, MADV_POPULATE_WRITE);
	}
}

/* All that comes later is on pages of this size, too. */
static void ask_for(struct arm *arm, const struct copy_mappings *mappings, bool huge)
{
	arm_call(arm, SYS_prctl, PR_SET_THP_DISABLE, !huge, 0, 0);
	for (size_t i = 0; huge && i < mappings->count; i++)
		if (is_anonymous(&mappings->all[i]))
			advise(arm, mappings->all[i].start, mappings->all[i].end, MADV_HUGEPAGE);
}

/* Within its mapping, the huge pages that the run touches; start == end: there is no whole one. */
static struct page_run whole_pages(const struct page_run *run, uint64_t size)
{
	struct page_run whole = *run;

	whole.start = run->start & ~(size - 1);
	whole.end = (run->end + size - 1) & ~(size - 1);
	if (whole.start < run->mapping_start)
		whole.start += size;
	if (whole.end > run->mapping_end)
		whole.end -= size;
	if (whole.end <= whole.start)
		whole.end = whole.start = run->end;
	return whole;
}

static int collapse(struct arm *arm, const struct page_run *run, uint64_t size, uint64_t *done)
{
	struct page_run whole = whole_pages(run, size);
	int64_t result;

	/* Runs of one huge page: the first has it collapsed. */
	if (whole.start < *done)
		whole.start = *done;
	if (whole.start < whole.end) {
		result = advise(arm, whole.start, whole.end, MADV_COLLAPSE);
		/* What is not on huge pages afterwards is seen in its backing. */
		if (result == COPY_LOST)
			return failed(result);
		*done = whole.end;
	}
	return 0;
}

int arm_memory_prepare(struct arm *arm, const struct page_runs *runs, bool huge,
		       uint64_t huge_page_bytes)
{
	struct copy_mappings mappings;
	uint64_t done = 0;
	int rc = 0;

	if (copy_mappings_read(&mappings, arm->copy.pid) < 0)
		return -1;
	populate_files(arm, &mappings);
	ask_for(arm, &mappings, huge);
	copy_mappings_free(&mappings);
	for (size_t i = 0; huge && rc == 0 && i < runs->count; i++)
		rc = collapse(arm, &runs->all[i], huge_page_bytes, &done);
	/* The rest, and all of the other arm: writing gives it frames of its own. */
	for (size_t i = 0; rc == 0 && i < runs->count; i++)
		if (advise(arm, runs->all[i].start, runs->all[i].end, MADV_POPULATE_WRITE) == COPY_LOST)
			rc = failed(COPY_LOST);
	return rc;
}

/* Its mapping may be gone in the meantime. */
static bool read_page(const struct copy *copy, uint64_t at, uint8_t page[PAGE])
{
	if (copy_read(copy, at, page, PAGE) == 0)
		return true;
	memset(page, 0, PAGE);
	return false;
}

int arm_memory_compare(const struct copy *before, const struct arm *one, const struct arm *other,
		       const struct page_runs *runs, struct arm_difference *difference)
{
	const uint64_t every = runs->bytes / PAGE / MOST_COMPARED_PAGES + 1;
	uint8_t was[PAGE], left[PAGE], right[PAGE];

	*difference = (struct arm_difference){ 0, 0 };
	for (size_t i = 0; i < runs->count; i++) {
		for (uint64_t at = runs->all[i].start; at < runs->all[i].end; at += every * PAGE) {
			const bool has = read_page(&one->copy, at, left);

			read_page(before, at, was);
			if (has != read_page(&other->copy, at, right) || memcmp(left, right, PAGE))
				difference->different++;
			if (memcmp(was, left, PAGE))
				difference->changed++;
		}
	}
	return 0;
}
