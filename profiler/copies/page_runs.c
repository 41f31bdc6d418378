/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "page_runs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE UINT64_C(4096)
/* Of /proc/PID/pagemap. */
#define PRESENT (UINT64_C(1) << 63)
#define SWAPPED (UINT64_C(1) << 62)
/* For kernels that cannot skip reserved memory: a mapping is read page by page. */
#define MOST_READ_BYTES (UINT64_C(1) << 40)
/* Holes that are filled rather than walked around. */
#define SMALL_HOLE (8 * PAGE)

static int append(struct page_runs *runs, const struct page_run *run)
{
	if (runs->count == runs->capacity) {
		const size_t larger = runs->capacity ? 2 * runs->capacity : 256;
		struct page_run *all = realloc(runs->all, larger * sizeof(*all));

		if (!all)
			return -1;
		runs->all = all;
		runs->capacity = larger;
	}
	runs->all[runs->count++] = *run;
	return 0;
}

static int add_run(struct page_runs *runs, uint64_t start, uint64_t end,
		   const struct copy_mapping *mapping)
{
	const struct page_run run = {
		start, end, mapping->start, mapping->end,
		PROT_READ | PROT_WRITE | (mapping->executable ? PROT_EXEC : 0u),
	};
	struct page_run *last = runs->count ? &runs->all[runs->count - 1] : NULL;

	runs->bytes += end - start;
	if (last && last->mapping_start == mapping->start && start - last->end <= SMALL_HOLE) {
		last->end = end;
		return 0;
	}
	return append(runs, &run);
}

int page_runs_new(struct page_runs *new, const struct page_runs *all,
		  const struct page_runs *before)
{
	size_t old = 0;

	*new = (struct page_runs){ NULL, 0, 0, 0 };
	for (size_t i = 0; i < all->count; i++) {
		const struct page_run *run = &all->all[i];

		while (old < before->count && before->all[old].start < run->start)
			old++;
		if (old < before->count && before->all[old].start == run->start &&
		    before->all[old].end == run->end)
			continue;
		if (append(new, run) < 0)
			return -1;
		new->bytes += run->end - run->start;
	}
	return 0;
}

bool page_runs_are_of(const struct copy_mapping *mapping)
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
	uint64_t entries[PAGEMAP_ENTRIES];

	for (uint64_t at = mapping->start; at < mapping->end;) {
		const uint64_t left = (mapping->end - at) / PAGE;
		const size_t count = left < PAGEMAP_ENTRIES ? (size_t)left : PAGEMAP_ENTRIES;
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
	/* No machine has as much memory: it is reserved. */
	return mapping->end - mapping->start > MOST_READ_BYTES ? 0 :
								 read_mapping(runs, pagemap, mapping);
}

size_t pagemap_read(int pagemap, uint64_t entries[PAGEMAP_ENTRIES], uint64_t start, uint64_t end)
{
	const uint64_t left = (end - start) / PAGE;
	const size_t count = left < PAGEMAP_ENTRIES ? (size_t)left : PAGEMAP_ENTRIES;
	const size_t bytes = count * sizeof(entries[0]);

	if (pread(pagemap, entries, bytes, (off_t)(start / PAGE * sizeof(entries[0]))) !=
	    (ssize_t)bytes)
		memset(entries, 0xff, bytes);
	return count;
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
		if (page_runs_are_of(&mappings.all[i]))
			rc = add_mapping(runs, pagemap, &mappings.all[i]);
	copy_mappings_free(&mappings);
	close(pagemap);
	return rc;
}

int page_runs_exclusive(struct page_runs *exclusive, const struct page_runs *all, pid_t pid)
{
	uint64_t entries[PAGEMAP_ENTRIES];
	char path[64];
	int pagemap, rc = 0;

	*exclusive = (struct page_runs){ NULL, 0, 0, 0 };
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	pagemap = open(path, O_RDONLY | O_CLOEXEC);
	for (size_t i = 0; rc == 0 && i < all->count; i++) {
		const struct page_run *run = &all->all[i];
		const struct copy_mapping mapping = {
			.start = run->mapping_start, .end = run->mapping_end,
			.executable = run->protection & PROT_EXEC,
		};

		for (uint64_t at = run->start; rc == 0 && at < run->end;) {
			const size_t count = pagemap_read(pagemap, entries, at, run->end);

			for (size_t k = 0; k < count && rc == 0; k++, at += PAGE)
				if (entries[k] & PAGEMAP_EXCLUSIVE)
					rc = add_run(exclusive, at, at + PAGE, &mapping);
		}
	}
	if (pagemap >= 0)
		close(pagemap);
	return rc;
}

void page_runs_free(struct page_runs *runs)
{
	free(runs->all);
	*runs = (struct page_runs){ NULL, 0, 0, 0 };
}
