/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "offers.h"

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

static struct offer *add(struct offers *offers, size_t page_bytes, enum arena_method method)
{
	struct offer *offer = &offers->list[offers->count++];

	*offer = (struct offer){ .page_bytes = page_bytes, .method = method };
	return offer;
}

/* Transparent pages: a size's own file decides; the file of all where there is none. */
static void add_transparent(struct offers *offers, size_t page_bytes, size_t huge_bytes)
{
	char own[64], all[64] = "[never]", file[80];
	struct offer *offer;
	int has_own;

	snprintf(file, sizeof(file), THP "hugepages-%zukB/enabled", page_bytes >> 10);
	has_own = sysfile_line(own, sizeof(own), "%s", file) == 0;
	if (!has_own && page_bytes != huge_bytes)
		return;
	if (sysfile_line(all, sizeof(all), THP "enabled") != 0 && !has_own)
		return;
	offer = add(offers, page_bytes, page_bytes == huge_bytes ? ARENA_THP : ARENA_MTHP);
	if (!has_own || chosen(own, "inherit")) {
		snprintf(file, sizeof(file), THP "enabled");
		memcpy(own, all, sizeof(own));
	}
	if (chosen(own, "always") || chosen(own, "madvise"))
		offer->available_bytes = UINT64_MAX;
	else
		snprintf(offer->reason, sizeof(offer->reason),
			 "transparent pages of this size are off; echo madvise >%s", file);
}

static void add_pool(struct offers *offers, size_t page_bytes)
{
	uint64_t free, reserved = 0;
	struct offer *offer;

	if (sysfile_number(&free, POOL "free_hugepages", page_bytes >> 10) != 0)
		return;
	offer = add(offers, page_bytes, ARENA_HUGETLB);
	/* Promised to others, though still free. */
	sysfile_number(&reserved, POOL "resv_hugepages", page_bytes >> 10);
	free = free > reserved ? free - reserved : 0;
	offer->available_bytes = free * page_bytes;
	if (free == 0)
		snprintf(offer->reason, sizeof(offer->reason),
			 "the hugetlb pool has no free pages; echo <pages> >" POOL "nr_hugepages",
			 page_bytes >> 10);
}

void offers_find(struct offers *offers, size_t base_bytes)
{
	const size_t huge_bytes = offers_huge_bytes();
	size_t page_bytes = base_bytes;

	offers->count = 0;
	while (offers->count + 2 <= OFFERS_MOST && (page_bytes <<= 1)) {
		add_transparent(offers, page_bytes, huge_bytes);
		add_pool(offers, page_bytes);
	}
}

const struct offer *offers_pick(const struct offers *offers, size_t page_bytes,
				enum arena_method method)
{
	const struct offer *offer, *found = NULL;

	for (offer = offers->list; offer < offers->list + offers->count; offer++) {
		if (offer->page_bytes != page_bytes ||
		    (method != ARENA_BASE &&
		     (method == ARENA_HUGETLB) != (offer->method == ARENA_HUGETLB)))
			continue;
		if (!found || (!found->available_bytes && offer->available_bytes))
			found = offer;
	}
	return found;
}

size_t offers_huge_bytes(void)
{
	uint64_t bytes;

	if (sysfile_number(&bytes, THP "hpage_pmd_size") != 0 &&
	    sysfile_meminfo("Hugepagesize", &bytes) != 0)
		return 0;
	return bytes > SIZE_MAX ? 0 : (size_t)bytes;
}
