/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "memory.h"

/* Prefetchers do not cross pages of this size, on huge pages either. */
#define PAGE_LINES 64u
/* Lines that a stream is ahead of its program. */
#define STREAM_AHEAD 16u

size_t memory_lines(const struct timing_config *config)
{
	return cache_lines(config->l1.bytes) + cache_lines(config->l2.bytes);
}

void memory_init(struct memory *memory, const struct timing_config *config,
		 struct cache_line *lines, struct cache *l3, bool hashed_frames)
{
	memory->config = config;
	memory->hashed_frames = hashed_frames;
	cache_init(&memory->l1, config->l1.bytes, config->l1.ways, lines);
	cache_init(&memory->l2, config->l2.bytes, config->l2.ways,
		   lines + cache_lines(config->l1.bytes));
	calendar_init(&memory->buffers, config->fill_buffers);
	calendar_init(&memory->l3_channel, 1);
	calendar_init(&memory->memory_channel, 1);
	for (uint32_t i = 0; i < MEMORY_STREAMS; i++)
		memory->streams[i] = (struct stream){ UINT64_MAX, 0, 0, 0 };
	memory->next_stream = 0;
	for (uint32_t i = 0; i < MEMORY_BANKS; i++)
		memory->banks[i] = (struct bank){ UINT64_MAX, 0 };
	last_level_init(&memory->l3, config, l3);
}

/* Caches beyond the first are indexed by physical address. */
static uint64_t place(const struct memory *memory, uint64_t line)
{
	if (!memory->hashed_frames)
		return line;
	return scatter(line / PAGE_LINES) * PAGE_LINES | line % PAGE_LINES;
}

/* Why a line is fetched. */
enum reason {
	WANTED,		/* a load, a store or a walk waits for it */
	AHEAD,		/* it follows others that were accessed */
	PAIRED,		/* it is the pair of another one */
};

/* When a bank can have a line's row open, if requested now. */
static ticks open_row(struct memory *memory, uint64_t line, ticks time)
{
	/* Bits 14 to 16 xored with 18 to 20; rows are from bit 17 on. */
	struct bank *bank = &memory->banks[(line >> 8 ^ line >> 12) % MEMORY_BANKS];
	const uint64_t row = line >> 11;

	if (!memory->config->row_cycles || bank->row == row)
		return time;
	time = time > bank->free ? time : bank->free;
	bank->row = row;
	bank->free = time + (ticks)memory->config->row_cycles * TICKS_PER_CYCLE;
	return time;
}

/* When a line from beyond L2 arrives. */
static ticks fetch(struct memory *memory, uint64_t line, ticks time,
		   struct line_access access, enum reason reason)
{
	const struct timing_config *config = memory->config;
	struct calendar *channel = &memory->l3_channel;
	ticks interval = config->l3_interval;
	uint32_t cycles = config->l3_cycles;

	if (!last_level_has(&memory->l3, line, time, access)) {
		channel = &memory->memory_channel;
		interval = reason == WANTED ? config->memory_apart
					    : config->memory_interval;
		cycles = config->memory_cycles;
		if (reason == WANTED)
			time = open_row(memory, line, time);
	}
	if (reason != PAIRED)
		time = calendar_take(channel, time, interval) - interval;
	return time + (ticks)cycles * TICKS_PER_CYCLE;
}

/* An evicted line is written back to memory if it was modified, not only to L3. */
static void write_back(struct memory *memory, struct cache_line gone, ticks time)
{
	if (gone.changed && scatter(gone.line) >> 32 >= memory->l3.share)
		calendar_take(&memory->memory_channel, time,
			      memory->config->memory_interval);
}

/* Fetch a line to L2, with the other line of its aligned pair; returns when it arrives. */
static ticks bring(struct memory *memory, uint64_t line, ticks time,
		   struct line_access access)
{
	ticks there = fetch(memory, line, time, access, WANTED), paired;

	write_back(memory, cache_insert(&memory->l2, line, there), time);
	if (memory->config->pairs && !cache_find(&memory->l2, line ^ 1)) {
		access.paired = true;
		paired = fetch(memory, line ^ 1, time, access, PAIRED);
		write_back(memory,
			   cache_insert_late(&memory->l2, line ^ 1, paired),
			   time);
	}
	return there;
}

static const struct line_access data = { LINE_DATA, AGE_UNKNOWN, false };

static struct stream *stream_of(struct memory *memory, uint64_t page)
{
	struct stream *stream;

	for (uint32_t i = 0; i < MEMORY_STREAMS; i++)
		if (memory->streams[i].page == page)
			return &memory->streams[i];
	stream = &memory->streams[memory->next_stream++ % MEMORY_STREAMS];
	stream->page = page;
	stream->last = 2 * PAGE_LINES;	/* not adjacent to any line */
	stream->step = 0;
	return stream;
}

/* A miss in L1: prefetch the following lines of its page to L2. */
static void prefetch(struct memory *memory, uint64_t line, ticks time)
{
	struct stream *stream = stream_of(memory, line / PAGE_LINES);
	uint32_t here = (uint32_t)(line % PAGE_LINES);
	int32_t step = (int32_t)here - (int32_t)stream->last;

	stream->last = here;
	if (step != 1 && step != -1) {
		stream->step = 0;
		return;
	}
	if (stream->step != step)
		stream->ahead = here;
	stream->step = step;
	while (stream->ahead != (step > 0 ? PAGE_LINES - 1 : 0)) {
		uint32_t distance = step > 0 ? stream->ahead - here
					     : here - stream->ahead;
		uint64_t next;

		if ((int32_t)distance >= (int32_t)STREAM_AHEAD)
			break;
		stream->ahead += (uint32_t)step;
		next = line - here + stream->ahead;
		if (!cache_find(&memory->l2, next))
			write_back(memory,
				   cache_insert(&memory->l2, next,
						fetch(memory, next, time,
						      data, AHEAD)),
				   time);
	}
}

static ticks read_line(struct memory *memory, uint64_t line, ticks time,
		       struct line_access access)
{
	const struct timing_config *config = memory->config;
	const ticks l1 = (ticks)config->l1.cycles * TICKS_PER_CYCLE;
	const ticks l2 = (ticks)config->l2.cycles * TICKS_PER_CYCLE;
	struct cache_line *found;
	ticks there, free;

	line = place(memory, line);
	found = cache_find(&memory->l1, line);
	if (found) {
		there = time + l1;
		return found->arrival > there ? found->arrival : there;
	}
	found = cache_find(&memory->l2, line);
	if (found) {
		there = time + l2;
		if (found->arrival > there)
			there = found->arrival;
	} else {
		there = bring(memory, line, time, access);
	}
	/* A buffer is held until the line is there; if all are, it waits. */
	free = calendar_take(&memory->buffers, time, there - time);
	if (access.kind == LINE_DATA || !config->walks_first)
		there = free;
	cache_insert(&memory->l1, line, there);
	if (access.kind == LINE_DATA)
		prefetch(memory, line, time);
	return there;
}

ticks memory_read(struct memory *memory, uint64_t line, ticks time,
		  enum line_kind kind)
{
	return read_line(memory, line, time, (struct line_access){ kind, AGE_UNKNOWN, false });
}

ticks memory_read_table(struct memory *memory, uint64_t line, ticks time,
			uint64_t age)
{
	return read_line(memory, line, time, (struct line_access){ LINE_TABLE, age, false });
}

/* Mark the line in the level that will write it back. */
static void mark_changed(struct memory *memory, uint64_t placed)
{
	struct cache_line *found = cache_find(&memory->l1, placed);

	if (!found || found->changed)
		return;
	found->changed = 1;
	found = cache_find(&memory->l2, placed);
	if (found)
		found->changed = 1;
}

ticks memory_change(struct memory *memory, uint64_t line, ticks time)
{
	ticks there = memory_read(memory, line, time, LINE_DATA);

	mark_changed(memory, place(memory, line));
	return there;
}

void memory_touch(struct memory *memory, uint64_t line, bool change)
{
	const uint64_t placed = place(memory, line);

	if (!cache_find(&memory->l1, placed)) {
		if (!cache_find(&memory->l2, placed))
			cache_insert(&memory->l2, placed, 0);
		cache_insert(&memory->l1, placed, 0);
	}
	if (change)
		mark_changed(memory, placed);
}
