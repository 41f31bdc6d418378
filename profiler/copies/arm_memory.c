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
#include "private_memory.h"
#include "sysfile.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

/* Code that is read ahead, so that it causes no faults. */
#define MOST_CODE_BYTES (UINT64_C(256) << 20)
#define RETRIES 5
#define BASE_PAGE UINT64_C(4096)

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

/* Pages that are added later have this size, too. */
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

/* Its own memory on a kernel that does not know the advice: filled anew. */
static int refill(struct arm *arm, const struct page_run *run, uint64_t page_bytes)
{
	return private_memory_replace(&arm->copy, &arm->registers, run->start, run->end,
				      run->protection, page_bytes);
}

static int collapse(struct arm *arm, const struct page_run *run, uint64_t size, uint64_t *done)
{
	struct page_run whole = whole_pages(run, size);
	int64_t result;

	/* Runs of one huge page: the first has it collapsed. */
	if (whole.start < *done)
		whole.start = *done;
	if (whole.start >= whole.end)
		return 0;
	*done = whole.end;
	result = advise(arm, whole.start, whole.end, MADV_COLLAPSE);
	if (result == -EINVAL)	/* before Linux 6.1 */
		return refill(arm, &whole, size);
	/* Its backing shows what is not on huge pages afterwards. */
	return result == COPY_LOST ? failed(result) : 0;
}

/* Frames of its own, by writing; of memory that is on huge pages already, for the rest of it. */
static int populate(struct arm *arm, const struct page_run *run, bool huge)
{
	const int64_t result = advise(arm, run->start, run->end, MADV_POPULATE_WRITE);

	if (result == -EINVAL && !huge)	/* before Linux 5.14 */
		return refill(arm, run, BASE_PAGE);
	return result == COPY_LOST ? failed(result) : 0;
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
	for (size_t i = 0; rc == 0 && i < runs->count; i++)
		rc = populate(arm, &runs->all[i], huge);
	return rc;
}
