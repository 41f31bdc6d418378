/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "layout.h"

/* Bytes of a page table entry, on every CPU that this may run on. */
#define PTE_BYTES 8

/*
 * Base pages of a window.  Every first-level TLB of a core that hosts guests, where
 * the TLB may hold base pages of memory in huge pages, has 48 entries or more.
 */
#define WINDOW_PAGES 32

/* Pages of a block of regions: whole cache lines of page table entries. */
#define CLUSTER_PAGES 16

struct layout layout_apart(size_t spacing, size_t shift)
{
	return (struct layout){
		.spacing = spacing, .stride = spacing + shift, .block_lines = SIZE_MAX,
	};
}

struct layout layout_packed(size_t line)
{
	/*
	 * An odd number of lines fills all sets of a cache evenly, and no two
	 * share the pair of lines that Intel's prefetcher fetches as one.
	 */
	return layout_apart(LAYOUT_PACKED_LINES * line, 0);
}

struct layout layout_strided(size_t spacing, size_t base, size_t line)
{
	return (struct layout){
		.spacing = spacing, .stride = spacing, .block_lines = 1,
		.block_stride = spacing, .block_shift = line, .shift_wrap = base,
	};
}

struct layout layout_windows(size_t every, size_t base, size_t line)
{
	size_t lines = WINDOW_PAGES * base / (every * line);

	return (struct layout){
		.spacing = every * line, .stride = every * line, .block_lines = lines,
		.block_stride = lines * every * line, .by_block = 1,
	};
}

size_t layout_region_bytes(size_t base)
{
	return base / PTE_BYTES * base;
}

struct layout layout_regions(size_t regions, size_t base, size_t line)
{
	const size_t clusters = LAYOUT_REGION_LINES / CLUSTER_PAGES, ptes = line / PTE_BYTES;
	size_t pages = regions * (base / PTE_BYTES) / clusters;

	/*
	 * Clusters of pages, so that the entries of each fill the same number of cache lines
	 * at any distance; and an odd number of such lines from cluster to cluster, so that
	 * they do not conflict in few sets of the caches.  Otherwise the caches' costs would
	 * be mistaken for those of walk caches.
	 */
	if (pages > CLUSTER_PAGES)
		pages = ((pages + ptes - 1) / ptes | 1) * ptes;
	else
		pages = CLUSTER_PAGES;
	return (struct layout){
		.spacing = pages * base / CLUSTER_PAGES, .stride = base + line,
		.block_lines = CLUSTER_PAGES, .block_stride = pages * base,
		.block_shift = CLUSTER_PAGES * line, .shift_wrap = base,
		.turn_bytes = layout_region_bytes(base),
	};
}

size_t layout_place(const struct layout *layout, size_t line)
{
	size_t block = line / layout->block_lines, at = line % layout->block_lines;
	size_t place = block * layout->block_stride + at * layout->stride;

	if (layout->shift_wrap)
		place += block * layout->block_shift % layout->shift_wrap;
	return place;
}

size_t layout_span(const struct layout *layout, size_t lines)
{
	/* The last line need not be the farthest, but no shift exceeds its wrap. */
	return layout_place(layout, lines - 1) + layout->stride + layout->shift_wrap;
}
