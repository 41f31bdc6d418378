/* SPDX-License-Identifier: GPL-2.0-or-later */
/* When do lines arrive from each level, alone and many at once? */
#include "timing.h"

#define L1 CYCLES(4)
#define L2 CYCLES(14)
#define L3 CYCLES(50)
#define MEMORY CYCLES(200)
/* Sets of the L2 of plain_config(). */
#define L2_SETS 512u

/* How long does a line take when nothing else is in flight? */
static ticks read_alone(struct rig *rig, uint64_t line, enum line_kind kind)
{
	ticks start = quiet(rig);

	return memory_read(&rig->core.memory, line, start, kind) - start;
}

static ticks data(struct rig *rig, uint64_t line)
{
	return read_alone(rig, line, LINE_DATA);
}

/* A rig whose pages lie in memory as their addresses say. */
static struct rig *in_order(const struct timing_config *config)
{
	struct rig *rig = make_rig(config, false);

	memory_init(&rig->core.memory, &rig->config, rig->lines, &rig->l3, false);
	return rig;
}

TEST(each_level_has_its_latency)
{
	struct timing_config config = plain_config();
	struct rig *rig;

	config.l3_bytes = 1 << 20;
	rig = in_order(&config);
	rig->core.memory.l3.share = 0;
	CHECK_EQUAL(data(rig, 0), MEMORY);
	CHECK_EQUAL(data(rig, 0), L1);
	/* Eight others in its set of L1, in other sets of L2. */
	for (uint64_t line = 1; line <= 8; line++)
		data(rig, line * PAGE_LINES);
	CHECK_EQUAL(data(rig, 0), L2);
	CHECK_EQUAL(data(rig, 0), L1);
	/* Eight others in its sets of L1 and L2. */
	for (uint64_t line = 2; line <= 9; line++)
		CHECK_EQUAL(data(rig, line * L2_SETS), MEMORY);
	CHECK_EQUAL(data(rig, 0), L3);
	drop_rig(rig);
}

TEST(without_a_last_level_all_is_memory)
{
	struct timing_config config = plain_config();
	struct rig *rig = in_order(&config);

	for (uint64_t line = 0; line <= 8; line++)
		CHECK_EQUAL(data(rig, line * L2_SETS), MEMORY);
	CHECK_EQUAL(data(rig, 0), MEMORY);
	CHECK_EQUAL(read_alone(rig, 5 * PAGE_LINES, LINE_TABLE), MEMORY);
	drop_rig(rig);
}

/* Of lines never seen, the last level has the share that was set. */
TEST(the_last_level_has_its_share)
{
	struct timing_config config = plain_config();
	const uint64_t half = UINT64_C(1) << 31;
	struct rig *rig;

	config.l3_bytes = 16 << 20;
	for (uint64_t share = 0; share <= 2 * half; share += half) {
		int there = 0;

		rig = in_order(&config);
		last_level_share(&rig->core.memory.l3, share, 2 * half);
		for (uint64_t page = 0; page < 4000; page++) {
			ticks time = data(rig, page * PAGE_LINES + page % 61);

			CHECK(time == L3 || time == MEMORY);
			there += time == L3;
		}
		CHECK(share != 0 || there == 0);
		CHECK(share != half || (there > 1800 && there < 2200));
		CHECK(share != 2 * half || there == 4000);
		/* Tables are wanted more often than data, */
		CHECK_EQUAL(read_alone(rig, UINT64_C(1) << 50, LINE_TABLE),
			    share ? L3 : MEMORY);
		/* but not where one line of them follows another. */
		there = 0;
		for (uint64_t line = 1; line < 4000; line++)
			there += read_alone(rig, (UINT64_C(1) << 50) + line,
					    LINE_TABLE) == L3;
		CHECK(share != half || (there > 1800 && there < 2200));
		drop_rig(rig);
	}
}

/*
 * Random reads of 4 GiB with 8 MiB of cache, as much as their tables: of these x = exp(-x) is
 * missing (Che, Tung and Wang), 0.567; if data comes in pairs, each line of which takes space, as
 * much of the time.
 */
TEST(tables_take_space_too)
{
	struct timing_config config = plain_config();
	struct rig *rig;

	config.l3_bytes = 8 << 20;
	rig = in_order(&config);
	last_level_share(&rig->core.memory.l3, 8 << 20, UINT64_C(4) << 30);
	CHECK(rig->core.memory.l3.table_share >> 22 > 1024 * 42 / 100);
	CHECK(rig->core.memory.l3.table_share >> 22 < 1024 * 45 / 100);
	drop_rig(rig);
	config.pairs = 1;
	rig = in_order(&config);
	last_level_share(&rig->core.memory.l3, 8 << 20, UINT64_C(4) << 30);
	CHECK(rig->core.memory.l3.table_share >> 22 > 1024 * 28 / 100);
	CHECK(rig->core.memory.l3.table_share >> 22 < 1024 * 32 / 100);
	drop_rig(rig);
}

/*
 * Lines that differ in high bits of their addresses alone are in one set of each of 8 slices, of 16
 * ways: that many stay, and of a ring of more none.
 */
TEST(lines_far_apart_are_in_several_slices)
{
	struct timing_config config = plain_config();
	const uint64_t apart = UINT64_C(3) << 18;

	config.l3_bytes = 16 << 20;
	for (uint64_t lines = 64; lines <= 1024; lines *= 16) {
		struct rig *rig = in_order(&config);
		uint64_t there = 0;

		last_level_share(&rig->core.memory.l3, 0, 1);
		for (uint64_t line = 0; line < lines; line++)
			CHECK_EQUAL(data(rig, line * apart), MEMORY);
		for (uint64_t line = 0; line < lines; line++)
			there += data(rig, line * apart) < MEMORY;
		CHECK_EQUAL(there, lines == 64 ? 64 : 0);
		drop_rig(rig);
	}
}

TEST(a_line_in_flight_is_waited_for)
{
	struct timing_config config = plain_config();
	struct rig *rig = in_order(&config);
	struct memory *memory = &rig->core.memory;

	CHECK_EQUAL(memory_read(memory, 0, 0, LINE_DATA), MEMORY);
	CHECK_EQUAL(memory_read(memory, 0, CYCLES(10), LINE_DATA), MEMORY);
	CHECK_EQUAL(memory_read(memory, 0, CYCLES(199), LINE_DATA),
		    CYCLES(199) + L1);
	CHECK_EQUAL(memory_read(memory, 0, MEMORY, LINE_DATA), MEMORY + L1);
	drop_rig(rig);
}

/* When this many lines of as many pages have arrived that were requested together. */
static ticks all_at_once(const struct timing_config *config, uint64_t lines)
{
	struct rig *rig = in_order(config);
	ticks last = 0;

	for (uint64_t i = 0; i < lines; i++) {
		ticks time = memory_read(&rig->core.memory, i * (PAGE_LINES + 3),
					 0, LINE_DATA);

		CHECK(time >= L3);
		last = time > last ? time : last;
	}
	drop_rig(rig);
	return last;
}

TEST(lines_in_flight_are_few)
{
	struct timing_config config = plain_config();
	const uint64_t lines = 400;
	ticks before = 0;

	for (config.fill_buffers = 32; config.fill_buffers; config.fill_buffers /= 2) {
		ticks time = all_at_once(&config, lines);

		CHECK_EQUAL(all_at_once(&config, config.fill_buffers), MEMORY);
		CHECK(time + SLOT >= lines * MEMORY / config.fill_buffers);
		CHECK(time <= lines * MEMORY / config.fill_buffers + MEMORY + SLOT);
		CHECK(time > before);
		before = time;
	}
}

/* A walk's read while four times as many loads as there are buffers wait. */
static ticks walk_among(const struct timing_config *config)
{
	struct rig *rig = in_order(config);
	ticks time;

	for (uint64_t i = 0; i < UINT64_C(4) * config->fill_buffers; i++)
		memory_read(&rig->core.memory, i * (PAGE_LINES + 3), 0, LINE_DATA);
	time = memory_read(&rig->core.memory, PAGE_LINES << 20, 0, LINE_TABLE);
	drop_rig(rig);
	return time;
}

TEST(walks_go_before_loads_that_wait)
{
	struct timing_config config = plain_config();

	config.fill_buffers = 8;
	CHECK(walk_among(&config) >= 4 * MEMORY);
	config.walks_first = 1;
	CHECK_EQUAL(walk_among(&config), MEMORY);
}

TEST(the_last_level_has_its_interval)
{
	struct timing_config config = plain_config();
	const uint64_t lines = 200;
	ticks expected = lines * CYCLES(10) + L3, time;

	config.fill_buffers = 1000;
	config.l3_interval = (uint32_t)CYCLES(10);
	/* Memory's is another. */
	CHECK_EQUAL(all_at_once(&config, lines), MEMORY);
	config.l3_bytes = 1 << 20;
	time = all_at_once(&config, lines);
	CHECK(time + 2 * SLOT >= expected && time <= expected);
	config.l3_interval = 1;
	CHECK_EQUAL(all_at_once(&config, lines), L3);
}

TEST(streams_are_fetched_ahead_in_their_page)
{
	struct timing_config config = plain_config();
	struct rig *rig = in_order(&config);
	const uint64_t up = 100 * PAGE_LINES, down = 200 * PAGE_LINES;

	CHECK_EQUAL(data(rig, up), MEMORY);
	CHECK_EQUAL(data(rig, up + 1), MEMORY);
	for (uint64_t line = 2; line < PAGE_LINES; line++)
		CHECK_EQUAL(data(rig, up + line), L2);
	CHECK_EQUAL(data(rig, up + PAGE_LINES), MEMORY);
	CHECK_EQUAL(data(rig, up - 1), MEMORY);

	for (uint64_t line = PAGE_LINES; line-- > 0;)
		CHECK_EQUAL(data(rig, down + line),
			    line >= PAGE_LINES - 2 ? MEMORY : L2);
	CHECK_EQUAL(data(rig, down - 1), MEMORY);
	drop_rig(rig);
}

TEST(streams_run_side_by_side)
{
	struct timing_config config = plain_config();
	struct rig *rig = in_order(&config);

	for (uint64_t line = 0; line < 8; line++)
		for (uint64_t page = 0; page < 8; page++)
			CHECK_EQUAL(data(rig, page * PAGE_LINES + line),
				    line < 2 ? MEMORY : L2);
	drop_rig(rig);
}

TEST(scattered_lines_are_no_stream)
{
	struct timing_config config = plain_config();
	struct rig *rig = in_order(&config);

	for (uint64_t line = 0; line < PAGE_LINES; line++)
		CHECK_EQUAL(data(rig, line * 5 % PAGE_LINES), MEMORY);
	drop_rig(rig);
}

TEST(a_stream_accessed_fast_is_in_flight)
{
	struct timing_config config = plain_config();
	struct rig *rig = in_order(&config);
	struct memory *memory = &rig->core.memory;

	memory_read(memory, 0, 0, LINE_DATA);
	memory_read(memory, 1, CYCLES(10), LINE_DATA);
	/* It was asked for ten cycles after the first. */
	CHECK_EQUAL(memory_read(memory, 2, CYCLES(20), LINE_DATA),
		    CYCLES(10) + MEMORY);
	drop_rig(rig);
}

TEST(pairs_of_lines_come_together)
{
	struct timing_config config = plain_config();
	struct rig *rig;

	config.pairs = 1;
	rig = in_order(&config);
	CHECK_EQUAL(data(rig, 10), MEMORY);
	CHECK_EQUAL(data(rig, 11), L2);
	CHECK_EQUAL(data(rig, 5 * PAGE_LINES + 31), MEMORY);
	CHECK_EQUAL(data(rig, 5 * PAGE_LINES + 30), L2);
	CHECK_EQUAL(data(rig, 7 * PAGE_LINES + 31), MEMORY);
	CHECK_EQUAL(data(rig, 7 * PAGE_LINES + 32), MEMORY);
	drop_rig(rig);

	config.pairs = 0;
	rig = in_order(&config);
	CHECK_EQUAL(data(rig, 10), MEMORY);
	CHECK_EQUAL(data(rig, 11), MEMORY);
	drop_rig(rig);
}

/* Base pages that are apart by the size of L2's sets need not meet in one. */
TEST(scattered_pages_lie_anywhere)
{
	struct timing_config config = plain_config();

	for (int scattered = 0; scattered <= 1; scattered++) {
		struct rig *rig = in_order(&config);
		int found = 0;

		rig->core.memory.hashed_frames = scattered;
		for (int round = 0; round < 2; round++)
			for (uint64_t i = 0; i < 16; i++)
				found += data(rig, i * L2_SETS) < MEMORY;
		CHECK(scattered ? found >= 12 : found == 0);
		/* A page's lines are together all the same. */
		data(rig, 999 * PAGE_LINES);
		data(rig, 999 * PAGE_LINES + 1);
		CHECK_EQUAL(data(rig, 999 * PAGE_LINES + 2), L2);
		drop_rig(rig);
	}
}

CHECK_MAIN
