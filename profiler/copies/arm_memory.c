/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "arm_memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

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
/* Larger shared mappings stay as they are, unwritable. */
#define MOST_UNSHARED_BYTES (UINT64_C(1) << 30)
/* Code that is read ahead, so that it causes no faults. */
#define MOST_CODE_BYTES (UINT64_C(256) << 20)
#define RETRIES 5

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
		result = arm_call(arm, SYS_mprotect, (const uint64_t[6]){
			mapping->start, bytes, mapping->readable ? PROT_READ : PROT_NONE });
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
	result = arm_call(arm, SYS_mmap, arguments);
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
		result = arm_call(arm, SYS_madvise,
				  (const uint64_t[6]){ start, end - start, (uint64_t)advice });
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
	arm_call(arm, SYS_prctl, (const uint64_t[6]){ PR_SET_THP_DISABLE, !huge });
	for (size_t i = 0; huge && i < mappings->count; i++)
		if (page_runs_are_of(&mappings->all[i]))
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
