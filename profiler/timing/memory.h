/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When does a line arrive?  The data caches of one core, its prefetcher, and
 * how many lines can be in flight.
 */
#ifndef TLBCOST_TIMING_MEMORY_H
#define TLBCOST_TIMING_MEMORY_H

#include "cache.h"
#include "calendar.h"
#include "last_level.h"

#define MEMORY_STREAMS 32u

/* Lines of one base page that missed one after the other. */
struct stream {
	uint64_t page;
	uint32_t last;		/* line in the page */
	int32_t step;		/* 1, -1; 0: not known yet */
	uint32_t ahead;		/* line up to which it was prefetched */
};

/*
 * Banks of memory, each with one row open.  Which bank an address is in is the
 * function of Sandy Bridge (Pessl et al., "DRAMA", USENIX Security 2016).
 */
#define MEMORY_BANKS 8u

struct bank {
	uint64_t row;
	ticks free;
};

struct memory {
	const struct timing_config *config;
	struct cache l1, l2;
	struct last_level l3;
	struct calendar buffers, l3_channel, memory_channel;
	struct stream streams[MEMORY_STREAMS];
	uint32_t next_stream;
	struct bank banks[MEMORY_BANKS];
	/* Frames are scattered in memory. */
	bool hashed_frames;
};

/* Lines that memory_init() needs. */
size_t memory_lines(const struct timing_config *config);

void memory_init(struct memory *memory, const struct timing_config *config,
		 struct cache_line *lines, struct cache *l3, bool hashed_frames);

/* Read a line at this time; returns when its data arrive. */
ticks memory_read(struct memory *memory, uint64_t line, ticks time,
		  enum line_kind kind);

/* The same for page-table entries last read N references ago. */
ticks memory_read_table(struct memory *memory, uint64_t line, ticks time,
			uint64_t age);

/* Read a line of data in order to modify it. */
ticks memory_change(struct memory *memory, uint64_t line, ticks time);

/*
 * A line of data was accessed, or modified, some time ago: the near caches hold it.  Takes no time,
 * and leaves the last level as it is.
 */
void memory_touch(struct memory *memory, uint64_t line, bool change);

#endif
