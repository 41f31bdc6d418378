/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Do lines lie where their layout promises, on every size of base page and line? */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "layout.h"
#include "order.h"

static const struct {
	size_t base, line;
} machines[] = {
	{ 4096, 64 }, { 4096, 128 }, { 16384, 64 }, { 16384, 128 }, { 65536, 64 }, { 65536, 128 },
};

#define EACH_MACHINE(m) for (size_t m = 0; m < sizeof(machines) / sizeof(machines[0]); m++)

static int compare(const void *a, const void *b)
{
	size_t x = *(const size_t *)a, y = *(const size_t *)b;

	return (x > y) - (x < y);
}

/* How many different multiples of `unit` the lines lie in. */
static size_t units(const struct layout *layout, size_t lines, size_t unit)
{
	size_t *seen = calloc(lines, sizeof(*seen)), n = 0;

	for (size_t i = 0; i < lines; i++)
		seen[i] = layout_place(layout, i) / unit;
	qsort(seen, lines, sizeof(*seen), compare);
	for (size_t i = 0; i < lines; i++)
		n += i == 0 || seen[i] != seen[i - 1];
	free(seen);
	return n;
}

static void check_inside(const struct layout *layout, size_t lines, size_t line)
{
	size_t span = layout_span(layout, lines), farthest = 0;

	for (size_t i = 0; i < lines; i++) {
		CHECK_EQUAL(layout_place(layout, i) % sizeof(void *), 0);
		if (layout_place(layout, i) > farthest)
			farthest = layout_place(layout, i);
	}
	CHECK(farthest + line <= span);
}

TEST(spread_lines)
{
	EACH_MACHINE(m) {
		size_t base = machines[m].base, line = machines[m].line;
		struct layout apart = layout_apart(base, line), packed = layout_packed(line);

		CHECK_EQUAL(units(&apart, 5000, base), 5000);
		CHECK_EQUAL(units(&apart, 5000, line), 5000);
		CHECK_EQUAL(units(&packed, 5000, line), 5000);
		CHECK(units(&packed, 5000, base) <= 5000 * 3 * line / base + 1);
		check_inside(&apart, 5000, line);
		check_inside(&packed, 5000, line);
	}
}

/* Distinct line numbers within a page: the sets of a first-level cache that are used. */
static size_t offsets(const struct layout *layout, size_t lines, size_t base, size_t line)
{
	char *seen = calloc(base / line, 1);
	size_t n = 0, at;

	for (size_t i = 0; i < lines; i++) {
		at = layout_place(layout, i) % base / line;
		n += !seen[at];
		seen[at] = 1;
	}
	free(seen);
	return n;
}

TEST(strided_lines)
{
	EACH_MACHINE(m) {
		size_t base = machines[m].base, line = machines[m].line;

		for (size_t pages = 1; pages <= 65536; pages *= 16) {
			struct layout layout = layout_strided(pages * base, base, line);

			for (size_t i = 0; i < 200; i++)
				CHECK_EQUAL(layout_place(&layout, i) / base, i * pages);
			CHECK(offsets(&layout, 200, base, line) >= (base / line < 200 ?
								   base / line : 200));
			check_inside(&layout, 200, line);
		}
	}
}

TEST(windows)
{
	EACH_MACHINE(m) {
		size_t base = machines[m].base, line = machines[m].line;

		for (size_t every = 1; every <= 3; every += 2) {
			struct layout layout = layout_windows(every, base, line);

			CHECK(layout.block_stride <= 32 * base);
			CHECK(layout.block_stride > 31 * base);
			for (size_t i = 0; i < 3 * layout.block_lines; i++)
				CHECK_EQUAL(layout_place(&layout, i), i * every * line);
		}
	}
}

TEST(regions)
{
	static const unsigned counts[] = { 16, 24, 40, 56, 72, 104, 136, 200, 264, 392, 520 };
	const size_t n = LAYOUT_REGION_LINES;

	CHECK_EQUAL(layout_region_bytes(4096), 2 << 20);
	CHECK_EQUAL(layout_region_bytes(16384), 32 << 20);
	CHECK_EQUAL(layout_region_bytes(65536), 512 << 20);
	EACH_MACHINE(m) {
		size_t base = machines[m].base, line = machines[m].line, promised, used;
		/* As much memory as one cache line of page table entries maps. */
		size_t entries = line / 8 * base, entry_lines = 0;

		for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
			struct layout layout = layout_regions(counts[i], base, line);

			promised = n * layout.spacing / layout_region_bytes(base);
			used = units(&layout, n, layout_region_bytes(base));
			CHECK(promised >= counts[i] && promised <= 2 * counts[i]);
			/* The last ones are as many as there are clusters. */
			CHECK(used <= promised + 1 && (used + 8 >= promised || used >= 512));
			CHECK_EQUAL(units(&layout, n, base), n);
			CHECK(offsets(&layout, n, base, line) >= base / line);
			/* The whole point: the caches' part of a walk does not change. */
			if (i == 0)
				entry_lines = units(&layout, n, entries);
			CHECK_EQUAL(units(&layout, n, entries), entry_lines);
			check_inside(&layout, n, line);
		}
	}
}

TEST(regions_are_visited_in_turn)
{
	const size_t n = LAYOUT_REGION_LINES;
	uint32_t *order = calloc(n, sizeof(*order));
	char *seen = calloc(n, 1);
	size_t last[LAYOUT_MOST_REGIONS] = { 0 };
	uint64_t seed = 3;

	for (unsigned count = 16; count <= 520; count += 24) {
		struct layout layout = layout_regions(count, 4096, 64);
		size_t used = units(&layout, n, layout.turn_bytes), number;

		memset(seen, 0, n);
		order_lines(&layout, order, n, &seed);
		for (size_t i = 0; i < n; i++) {
			seen[order[i]]++;
			number = layout_place(&layout, order[i]) / layout.turn_bytes;
			if (i >= used)
				CHECK(i - last[number] <= used);
			/* Towards the end some regions have no lines left. */
			if (i >= used && count <= 64 && i < n * 8 / 10)
				CHECK_EQUAL(i - last[number], used);
			last[number] = i;
		}
		CHECK(memchr(seen, 0, n) == NULL);
	}
	free(order);
	free(seen);
}

CHECK_MAIN
