/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What is known of the modelled core.
 *
 * This folder is only the model: it allocates nothing, does no I/O and needs no library, so
 * any engine (a Valgrind tool today) can drive it.
 */
#ifndef TLBCOST_TIMING_CONFIG_H
#define TLBCOST_TIMING_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Time: a 64th of a core cycle, so that widths of up to 16 come out even. */
typedef uint64_t ticks;
#define TICKS_PER_CYCLE 64u

/* Caches work on lines of this size. */
#define LINE_SHIFT 6u

#define MOST_HALF_LIVES 16u

struct cache_config {
	uint32_t bytes, ways;	/* bytes: ways x sets of lines, sets a power of 2 */
	uint32_t cycles;	/* from a load's start to its data */
};

struct timing_config {
	/* The pipeline. */
	uint32_t width;		/* instructions per cycle */
	uint32_t reorder_buffer;	/* instructions in flight */
	uint32_t store_buffer;	/* stores in flight */
	uint32_t forward;	/* cycles from a store to a load of its data; 0: as L1 */
	uint32_t mispredict;	/* cycles from a branch's outcome to the right path */
	/* Data. */
	struct cache_config l1, l2;
	uint32_t huge_contiguous;	/* 1: a huge page's lines are contiguous in memory */
	uint32_t pairs;		/* 1: lines are fetched to L2 in pairs */
	uint32_t fill_buffers;	/* lines in flight to L1 at once */
	uint32_t walks_first;	/* 1: a walk's reads go before loads that wait for a buffer */
	uint32_t l3_bytes;	/* the part available to this program */
	/*
	 * Cycles after which half of the lines that are not accessed are evicted by others that
	 * share it: one value for each measurement, since others come and go.  A 0 ends them.
	 * If there are none, it holds l3_bytes of what the program touched.
	 */
	uint32_t l3_half_life_cycles[MOST_HALF_LIVES];
	/* The part of it that protects reused lines, in per cent; the rest is LRU. */
	uint32_t l3_adaptive;
	/* Without half-lives: how long a line stays, in per cent of the usual time; 0: 100. */
	uint32_t l3_lifetime;
	uint32_t l3_cycles, memory_cycles;
	uint32_t l3_interval;	/* ticks from one of its lines to the next, at best */
	uint32_t memory_interval;	/* the same of memory, to the next line */
	uint32_t memory_apart;	/* and to one anywhere else */
	uint32_t row_cycles;	/* and to another row of one bank; 0: not known */
	/* Translation. */
	uint32_t stlb_cycles;	/* the additional cost of a second-level hit */
	uint32_t walkers;	/* walks at once */
	/* Time that a walker is busy in addition to its reads, on base and on huge pages. */
	uint32_t walk_cycles[2];
	uint32_t walk_latency;	/* of these cycles, those that delay the reference, too */
	/* Cost of each read in addition to the cache's, on base and on huge pages. */
	uint32_t read_cycles[2];
	uint32_t directories;	/* entries of the cache of page directories */
	uint32_t directory_ways;	/* of it; 0: fully associative */
	/*
	 * Entries of the caches for 1 GiB and 512 GiB entries.  pointers 0: these are unknown,
	 * and all that a walk reads above its last two levels is cached, of the last but one
	 * `directories` entries.
	 */
	uint32_t pointers, roots;
	/* log2 of the pages that a hypervisor's tables map; 0: no hypervisor */
	uint32_t host_shift;
	/* Base pages that a guest's process gets in non-contiguous frames. */
	uint32_t isolated_pages;
};

#endif
