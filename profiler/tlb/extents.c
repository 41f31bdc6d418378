/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "extents.h"

#define FIRST_CAPACITY 256u

/* Index of the first extent that ends after the address. */
static size_t search(const struct extents *extents, uint64_t address)
{
	size_t low = 0, high = extents->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (extents->extent[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Make space for one more at this index. */
static bool open_up(struct extents *extents, size_t at)
{
	if (extents->count == extents->capacity) {
		size_t capacity = extents->capacity ? 2 * extents->capacity :
						      FIRST_CAPACITY;
		struct extent *grown =
			extents->allocate(capacity * sizeof(*grown));

		if (!grown) {
			extents->failed = true;
			return false;
		}
		for (size_t i = 0; i < extents->count; i++)
			grown[i] = extents->extent[i];
		if (extents->extent)
			extents->release(extents->extent);
		extents->extent = grown;
		extents->capacity = capacity;
	}
	for (size_t i = extents->count++; i > at; i--)
		extents->extent[i] = extents->extent[i - 1];
	return true;
}

static void report(const struct extents *extents, const struct extent *extent,
		   uint64_t start, uint64_t end)
{
	if (extents->removed && extent->mapping)
		extents->removed(extent->mapping, end - start);
}

void extents_remove(struct extents *extents, uint64_t start, uint64_t end)
{
	size_t first = search(extents, start), at = first, gone = 0;

	if (at == extents->count || start >= end)
		return;
	if (extents->extent[at].start < start) {
		struct extent *split = &extents->extent[at];

		if (split->end > end) {
			/* A hole in its middle splits it in two. */
			if (!open_up(extents, at))
				return;
			split = &extents->extent[at];
			report(extents, split, start, end);
			split[0].end = start;
			split[1].start = end;
			return;
		}
		report(extents, split, start, split->end);
		split->end = start;
		first = ++at;
	}
	for (; at < extents->count && extents->extent[at].end <= end; at++, gone++)
		report(extents, &extents->extent[at], extents->extent[at].start,
		     extents->extent[at].end);
	if (at < extents->count && extents->extent[at].start < end) {
		report(extents, &extents->extent[at], extents->extent[at].start, end);
		extents->extent[at].start = end;
	}
	if (!gone)
		return;
	for (; at < extents->count; at++, first++)
		extents->extent[first] = extents->extent[at];
	extents->count -= gone;
}

static bool alike(const struct extent *a, const struct extent *b)
{
	return a->site == b->site && a->flags == b->flags && a->mapping == b->mapping;
}

void extents_add(struct extents *extents, struct extent extent)
{
	size_t at;

	if (extent.start >= extent.end)
		return;
	extents_remove(extents, extent.start, extent.end);
	at = search(extents, extent.start);
	if (at && extents->extent[at - 1].end == extent.start &&
	    alike(&extents->extent[at - 1], &extent)) {
		extents->extent[at - 1].end = extent.end;
		return;
	}
	if (open_up(extents, at))
		extents->extent[at] = extent;
}

struct extent *extents_find(const struct extents *extents, uint64_t address)
{
	size_t at = search(extents, address);

	if (at == extents->count || extents->extent[at].start > address)
		return NULL;
	return &extents->extent[at];
}
