/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does the ring visit every line once, and do the updates stay on the lines? */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "chase.h"

#define STRIDE 192

static struct chase chase_of(size_t lines)
{
	/* One word too many, to see whether something is written behind the last line. */
	return (struct chase){ calloc(1, lines * STRIDE + sizeof(void *)), STRIDE, lines };
}

static void ring_is_one_cycle(size_t lines)
{
	struct chase chase = chase_of(lines);
	uint32_t *order = calloc(lines, sizeof(*order));
	char *seen = calloc(lines, 1);
	uint64_t seed = lines;
	void *at = chase.memory;
	size_t line, visited = 0;

	chase_link(&chase, order, &seed);
	for (size_t i = 0; i < lines; i++) {
		at = chase_serial(at, 1);
		line = (size_t)((char *)at - chase.memory) / STRIDE;
		CHECK_EQUAL((size_t)((char *)at - chase.memory) % STRIDE, 0);
		CHECK(line < lines);
		visited += line < lines && !seen[line];
		seen[line < lines ? line : 0] = 1;
	}
	CHECK_EQUAL(visited, lines);
	CHECK(at == (void *)chase.memory);
	CHECK(chase_serial(at, 3 * lines) == at);
	free(order);
	free(seen);
	free(chase.memory);
}

static void every_line_once(void)
{
	static const size_t sizes[] = { 1, 2, 3, 23, 64, 1000, 4097 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		ring_is_one_cycle(sizes[i]);
}

static void orders_differ(void)
{
	struct chase chase = chase_of(512);
	uint32_t first[512], second[512];
	uint64_t seed = 1;

	chase_link(&chase, first, &seed);
	chase_link(&chase, second, &seed);
	CHECK(memcmp(first, second, sizeof(first)) != 0);
	free(chase.memory);
}

static void updates_hit_the_lines(void)
{
	const size_t lines = 300;
	struct chase chase = chase_of(lines);
	uint32_t *order = calloc(lines, sizeof(*order));
	size_t touched = 0, elsewhere = 0;
	uint64_t seed = 5, word;

	chase_link(&chase, order, &seed);
	chase_overlapped(&chase, 40 * lines, seed);
	for (size_t at = 0; at < lines * STRIDE; at += sizeof(word)) {
		memcpy(&word, chase.memory + at, sizeof(word));
		if (at % STRIDE == sizeof(void *))
			touched += word != 0;
		else if (at % STRIDE != 0)
			elsewhere += word != 0;
	}
	/* With 40 updates a line, one that gets none has probability 1e-17. */
	CHECK_EQUAL(touched, lines);
	CHECK_EQUAL(elsewhere, 0);
	/* The ring is as it was. */
	CHECK(chase_serial(chase.memory, lines) == (void *)chase.memory);
	free(order);
	free(chase.memory);
}

static void times_go_on_where_they_ended(void)
{
	struct chase chase = chase_of(64);
	uint32_t order[64];
	uint64_t seed = 1, state = 3;
	void *at = chase.memory;

	chase_link(&chase, order, &seed);
	CHECK(chase_time_serial(&at, 10001) > 0);
	/* 10001 steps round 64 lines end 17 lines on. */
	CHECK(at == chase_serial(chase.memory, 17));
	CHECK(chase_time_overlapped(&chase, 10000, &state) > 0);
	CHECK(state != 3);
	free(chase.memory);
}

static const struct check_test tests[] = {
	{ "a ring visits every line once", every_line_once },
	{ "two rings have different orders", orders_differ },
	{ "updates reach every line, nothing else, and leave the ring", updates_hit_the_lines },
	{ "timings are positive, and go on where the last one ended", times_go_on_where_they_ended },
};

CHECK_MAIN(tests)
