/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does the ring visit every line once, and do the loops stay on the lines? */
#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "chase.h"

#define STRIDE 192

static struct chase chase_of(struct layout layout, size_t lines)
{
	/* One word too many, to see whether something is written behind the last line. */
	return (struct chase){
		.memory = calloc(1, layout_span(&layout, lines) + sizeof(void *)),
		.layout = layout, .lines = lines, .order = calloc(lines, sizeof(uint32_t)),
	};
}

static void give_back(struct chase *chase)
{
	free(chase->memory);
	free(chase->order);
}

static size_t line_at(const struct chase *chase, const void *at)
{
	for (size_t i = 0; i < chase->lines; i++)
		if (chase->memory + layout_place(&chase->layout, i) == at)
			return i;
	return SIZE_MAX;
}

static void ring_is_one_cycle(struct layout layout, size_t lines)
{
	struct chase chase = chase_of(layout, lines);
	char *seen = calloc(lines, 1);
	uint64_t seed = lines;
	void *at = chase.memory;
	size_t line, visited = 0;

	chase_link(&chase, &seed);
	for (size_t i = 0; i < lines; i++) {
		at = chase_serial(at, 1);
		line = line_at(&chase, at);
		CHECK(line < lines);
		visited += line < lines && !seen[line];
		seen[line < lines ? line : 0] = 1;
	}
	CHECK_EQUAL(visited, lines);
	CHECK(at == (void *)chase.memory);
	CHECK(chase_serial(at, 3 * lines) == at);
	free(seen);
	give_back(&chase);
}

TEST(every_line_once)
{
	static const size_t sizes[] = { 1, 2, 3, 23, 64, 1000, 2049 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		ring_is_one_cycle(layout_apart(STRIDE, 0), sizes[i]);
		ring_is_one_cycle(layout_windows(1, 512, 64), sizes[i]);
		ring_is_one_cycle(layout_regions(40, 4096, 64), sizes[i]);
	}
}

TEST(orders_differ)
{
	struct chase chase = chase_of(layout_apart(STRIDE, 0), 512);
	uint32_t first[512];
	uint64_t seed = 1;

	chase_link(&chase, &seed);
	memcpy(first, chase.order, sizeof(first));
	chase_link(&chase, &seed);
	CHECK(memcmp(first, chase.order, sizeof(first)) != 0);
	give_back(&chase);
}

TEST(windows_are_left_when_done)
{
	struct layout layout = layout_windows(1, 512, 64);
	struct chase chase = chase_of(layout, 7 * layout.block_lines + 5);
	size_t changes = 0, jumps = 0;
	uint64_t seed = 4;

	chase_link(&chase, &seed);
	for (size_t i = 1; i < chase.lines; i++) {
		changes += chase.order[i] / layout.block_lines !=
			   chase.order[i - 1] / layout.block_lines;
		jumps += chase.order[i] != chase.order[i - 1] + 1;
	}
	CHECK_EQUAL(changes, 7);
	/* Not the order of addresses, in which a prefetcher would hide everything. */
	CHECK(jumps > chase.lines * 9 / 10);
	give_back(&chase);
}

/* Every line's second word was written, and nothing else but the ring. */
static void check_written(const struct chase *chase)
{
	size_t written = 0, elsewhere = 0;
	uint64_t word;

	for (size_t at = 0; at < chase->lines * STRIDE; at += sizeof(word)) {
		memcpy(&word, chase->memory + at, sizeof(word));
		if (at % STRIDE == sizeof(void *))
			written += word != 0;
		else if (at % STRIDE != 0)
			elsewhere += word != 0;
	}
	CHECK_EQUAL(written, chase->lines);
	CHECK_EQUAL(elsewhere, 0);
	CHECK(chase_serial(chase->memory, chase->lines) == (void *)chase->memory);
}

TEST(writes_hit_the_lines)
{
	static const enum chase_access accesses[] = { CHASE_OVERLAPPED, CHASE_STORE };
	const size_t lines = 304;
	uint64_t seed = 5;

	for (size_t i = 0; i < 2; i++) {
		struct chase chase = chase_of(layout_apart(STRIDE, 0), lines);
		struct chase_run run;

		chase_link(&chase, &seed);
		run = chase_start(&chase, seed);
		/* With 40 random updates a line, one that gets none has probability 1e-17. */
		CHECK(chase_time(&run, accesses[i], 40 * lines) > 0);
		check_written(&chase);
		give_back(&chase);
	}
}

TEST(times_go_on_where_they_ended)
{
	struct chase chase = chase_of(layout_apart(STRIDE, 0), 64);
	struct chase_run run;
	uint64_t seed = 1;
	void *start;

	chase_link(&chase, &seed);
	run = chase_start(&chase, seed);
	start = run.at[0];
	CHECK(chase_time(&run, CHASE_SERIAL, 10000) > 0);
	/* 10000 steps round 64 lines end 16 lines on. */
	CHECK(run.at[0] == chase_serial(start, 16));
	CHECK(chase_time(&run, CHASE_OVERLAPPED, 10000) > 0);
	CHECK(run.state != seed);
	CHECK(chase_time(&run, CHASE_STORE, 10000) > 0);
	CHECK_EQUAL(run.next, 16);
	CHECK(chase_time(&run, CHASE_SEQUENTIAL, 10000) > 0);
	CHECK_EQUAL(run.next, 32);
	CHECK(chase_time(&run, CHASE_INDEPENDENT, 10000) > 0);
	CHECK_EQUAL(run.next, 48);
	/* What is flushed is not lost; 64 lines on is where it was. */
	start = run.at[0];
	CHECK(chase_flush(&chase) == 0 || errno == ENOTSUP);
	CHECK(chase_time(&run, CHASE_FLUSHED, 64) > 0);
	CHECK(run.at[0] == start);
	give_back(&chase);
}

TEST(chains_share_the_accesses)
{
	static const struct {
		enum chase_access access;
		size_t chains;
	} kinds[] = {
		{ CHASE_CHAINS_2, 2 }, { CHASE_CHAINS_4, 4 }, { CHASE_CHAINS_8, 8 },
	};
	struct chase chase = chase_of(layout_apart(STRIDE, 0), 800);
	uint64_t seed = 9;

	chase_link(&chase, &seed);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct chase_run before = chase_start(&chase, 0), run = before;
		size_t moved = 0, expected;

		CHECK(chase_time(&run, kinds[i].access, 880) > 0);
		for (size_t j = 0; j < CHASE_MOST_CHAINS; j++) {
			expected = j % (CHASE_MOST_CHAINS / kinds[i].chains) ? 0 :
				   880 / kinds[i].chains;
			CHECK(run.at[j] == chase_serial(before.at[j], expected));
			moved += run.at[j] != before.at[j];
		}
		CHECK_EQUAL(moved, kinds[i].chains);
	}
	give_back(&chase);
}

CHECK_MAIN
