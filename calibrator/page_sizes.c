/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "page_sizes.h"

#include <stdio.h>
#include <string.h>

#include "sysfile.h"

#define THP "/sys/kernel/mm/transparent_hugepage/"
#define POOL "/sys/kernel/mm/hugepages/hugepages-%zukB/"

/* Is this mode, of a line that lists all, the one in brackets? */
static int chosen(const char *modes, const char *mode)
{
	char wanted[32];

	snprintf(wanted, sizeof(wanted), "[%s]", mode);
	return strstr(modes, wanted) != NULL;
}

static struct page_size *add(struct page_sizes *sizes, size_t page_bytes,
			     enum arena_method method)
{
	struct page_size *size = &sizes->list[sizes->count++];

	*size = (struct page_size){ .page_bytes = page_bytes, .method = method };
	return size;
}

/* Transparent pages: a size's own file decides, or the file for all sizes if there is none. */
static void add_transparent(struct page_sizes *sizes, size_t page_bytes, size_t huge_bytes)
{
	char own[64], all[64] = "[never]", file[80];
	struct page_size *size;
	int has_own;

	snprintf(file, sizeof(file), THP "hugepages-%zukB/enabled", page_bytes >> 10);
	has_own = sysfile_line(own, sizeof(own), "%s", file) == 0;
	if (!has_own && page_bytes != huge_bytes)
		return;
	if (sysfile_line(all, sizeof(all), THP "enabled") != 0 && !has_own)
		return;
	size = add(sizes, page_bytes, page_bytes == huge_bytes ? ARENA_THP : ARENA_MTHP);
	if (!has_own || chosen(own, "inherit")) {
		snprintf(file, sizeof(file), THP "enabled");
		memcpy(own, all, sizeof(own));
	}
	if (chosen(own, "always") || chosen(own, "madvise"))
		size->available_bytes = UINT64_MAX;
	else
		snprintf(size->reason, sizeof(size->reason),
			 "transparent pages of this size are off; echo madvise >%s", file);
}

static void add_pool(struct page_sizes *sizes, size_t page_bytes)
{
	uint64_t free, reserved = 0;
	struct page_size *size;

	if (sysfile_number(&free, POOL "free_hugepages", page_bytes >> 10) != 0)
		return;
	size = add(sizes, page_bytes, ARENA_HUGETLB);
	/* Free, but promised to others. */
	sysfile_number(&reserved, POOL "resv_hugepages", page_bytes >> 10);
	free = free > reserved ? free - reserved : 0;
	size->available_bytes = free * page_bytes;
	if (free == 0)
		snprintf(size->reason, sizeof(size->reason),
			 "the hugetlb pool has no free pages; echo <pages> >" POOL "nr_hugepages",
			 page_bytes >> 10);
}

void page_sizes_find(struct page_sizes *sizes, size_t base_bytes)
{
	const size_t huge_bytes = page_sizes_huge_bytes();
	size_t page_bytes = base_bytes;

	sizes->count = 0;
	while (sizes->count + 2 <= PAGE_SIZES_MOST && (page_bytes <<= 1)) {
		add_transparent(sizes, page_bytes, huge_bytes);
		add_pool(sizes, page_bytes);
	}
}

const struct page_size *page_sizes_pick(const struct page_sizes *sizes, size_t page_bytes,
					enum arena_method method)
{
	const struct page_size *size, *found = NULL;

	for (size = sizes->list; size < sizes->list + sizes->count; size++) {
		if (size->page_bytes != page_bytes ||
		    (method != ARENA_BASE &&
		     (method == ARENA_HUGETLB) != (size->method == ARENA_HUGETLB)))
			continue;
		if (!found || (!found->available_bytes && size->available_bytes))
			found = size;
	}
	return found;
}

size_t page_sizes_huge_bytes(void)
{
	uint64_t bytes;

	if (sysfile_number(&bytes, THP "hpage_pmd_size") != 0 &&
	    sysfile_meminfo("Hugepagesize", &bytes) != 0)
		return 0;
	return bytes > SIZE_MAX ? 0 : (size_t)bytes;
}
