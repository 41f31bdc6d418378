/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "groups.h"

#include <string.h>

#define LADDER(array) .ladder = (array), .points = sizeof(array) / sizeof((array)[0])
#define SERIAL (1u << CHASE_SERIAL)
#define OVERLAPPED (1u << CHASE_OVERLAPPED)
#define STORE (1u << CHASE_STORE)
#define SEQUENTIAL (1u << CHASE_SEQUENTIAL)
#define CHAINS (1u << CHASE_CHAINS_2 | 1u << CHASE_CHAINS_4 | 1u << CHASE_CHAINS_8)

/*
 * Steps of at most an eighth from the smallest known first level (10 entries) to beyond the
 * largest second one (4096), so any capacity is between two near ones; then far enough to see
 * that it was the last.
 */
static const uint32_t near_ladder[] = {
	4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 18, 20, 22, 24, 26, 28, 30, 32, 36, 40, 44, 48,
	52, 56, 60, 64, 68, 72, 76, 80, 88, 96, 104, 112, 120, 128, 144, 160, 176, 192, 208, 224,
	256, 288, 320, 352, 384, 416, 448, 512, 576, 640, 704, 768, 832, 896, 1024, 1152, 1280,
	1408, 1536, 1664, 1792, 1920, 2048, 2176, 2304, 2560, 2816, 3072, 3328, 3584, 4096, 4608,
	5120, 6144, 8192, 12288, 16384,
};

/*
 * Far beyond the TLBs, a walk costs more the farther its page-table entries are.  Nothing
 * between 16384 and 65536: there the lines alone about fill a 2 MiB cache, and their conflicts
 * would be mistaken for translation.
 */
static const uint32_t middle_ladder[] = { 65536 };
static const uint32_t far_ladder[] = { 262144 };

/*
 * A line per base page, in larger pages: what does the TLB hold if the guest has huge pages
 * but its hypervisor backs them with base pages?
 */
static const uint32_t dense_ladder[] = { 64, 1024, 4096, 8192, 16384, 65536, 262144 };

/*
 * 16 KiB to 256 MiB in lines of 64 bytes: at least one footprint that each usual cache holds
 * twice, and that is twice as large as the level before it.
 */
static const uint32_t loads_ladder[] = { 256, 2048, 8192, 65536, 262144, 1048576, 4194304 };
/* As many as are timed, so none is found in a cache again. */
static const uint32_t memory_ladder[] = { 131072 };
/* Larger than a core's own caches, far smaller than the last one. */
static const uint32_t residency_ladder[] = { 65536 };
static const uint32_t stream_ladder[] = { 262144, 4194304 };

static const uint32_t large_ladder[] = {
	4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 28, 32, 36, 40, 44, 48, 56, 64, 72, 80, 88, 96,
	104, 112, 128, 144, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024, 1152,
	1280, 1408, 1536, 1664, 1792, 1920, 2048, 2304, 2560, 3072, 4096, 6144, 8192,
};

/* Store buffers' TLBs are first levels: 16 entries where one is known. */
static const uint32_t stores_ladder[] = {
	4, 6, 8, 10, 12, 14, 15, 16, 17, 18, 20, 22, 24, 28, 32, 36, 40, 44, 48, 56, 64, 72, 80,
	88, 96, 104, 112, 128, 144, 160, 192, 224, 256, 384, 512,
};

static const uint32_t chains_ladder[] = { 8192, 65536 };

/* Up to the ways of any TLB all of whose lines are in one set, or the entries of a first level. */
static const uint32_t ways_ladder[] = {
	2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 22, 24, 26, 28, 30, 32, 36,
	40, 44, 48, 52, 56, 64, 72, 80, 88, 96, 104, 112, 128, 144, 160, 192,
};

static const uint32_t regions_ladder[] = { LAYOUT_REGION_LINES };

/* First levels of 16..256 entries, second levels of 512..4096. */
static const uint32_t code_ladder[] = {
	8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 56, 64, 72, 80, 96, 112, 128, 144, 160, 192,
	224, 240, 256, 264, 272, 288, 320, 384, 448, 512, 576, 640, 768, 896, 1024, 1152, 1280, 1408,
	1536, 1664, 1792, 1920, 2048, 2176, 2304, 2560, 3072, 4096, 5120, 6144, 8192,
};

#define OCTAVE(n) (n), (n) * 35 / 32, (n) * 19 / 16, (n) * 83 / 64, (n) * 181 / 128, \
	(n) * 197 / 128, (n) * 27 / 16, (n) * 235 / 128
#define HALF_OCTAVE(n) (n), (n) * 19 / 16, (n) * 181 / 128, (n) * 27 / 16

/* Lines of 64 bytes: 4 KiB to 256 MiB.  Caches beyond 16 MiB are seldom all ours. */
static const uint32_t caches_ladder[] = {
	OCTAVE(64u), OCTAVE(128u), OCTAVE(256u), OCTAVE(512u), OCTAVE(1024u), OCTAVE(2048u),
	OCTAVE(4096u), OCTAVE(8192u), OCTAVE(16384u), OCTAVE(32768u), OCTAVE(65536u),
	OCTAVE(131072u), HALF_OCTAVE(262144u), HALF_OCTAVE(524288u), HALF_OCTAVE(1048576u),
	2097152u, 2965504u, 4194304u,
};

const struct group groups[GROUP_COUNT] = {
	[GROUP_CYCLES] = {
		.name = "cycles", .probe = "cycles", .pages = PAGES_ANY, .sweeps = 20,
		.weight = 0.05,
	},
	[GROUP_FAULTS] = {
		.name = "faults", .pages = PAGES_ANY, .sweeps = 24, .weight = 0.2,
	},
	[GROUP_NEAR] = {
		.name = "near", .probe = "tlb", .layout = "spread", .pages = PAGES_BASE,
		LADDER(near_ladder), .accesses = SERIAL | OVERLAPPED,
		.sweeps = 40, .sweeps_per_arena = 2, .touch_share = 0.5, .weight = 1.6,
	},
	[GROUP_MIDDLE] = {
		/* Beyond the private caches other tenants disturb; only more sweeps help. */
		.name = "middle", .probe = "tlb", .layout = "spread", .pages = PAGES_BASE,
		LADDER(middle_ladder), .accesses = SERIAL | OVERLAPPED,
		.sweeps = 24, .sweeps_per_arena = 8, .touch_share = 0.5, .weight = 0.9,
	},
	[GROUP_FAR] = {
		.name = "far", .probe = "tlb", .layout = "spread", .pages = PAGES_BASE,
		LADDER(far_ladder), .accesses = SERIAL | OVERLAPPED,
		.sweeps = 8, .sweeps_per_arena = 4, .touch_share = 0.5, .weight = 2.2,
	},
	[GROUP_DENSE] = {
		.name = "dense", .probe = "tlb", .layout = "dense", .pages = PAGES_LARGER,
		LADDER(dense_ladder), .accesses = SERIAL | OVERLAPPED,
		.sweeps = 5, .sweeps_per_arena = 5, .touch_share = 0.5, .weight = 1,
	},
	[GROUP_LOADS] = {
		.name = "loads", .probe = "load", .pages = PAGES_PACKED,
		LADDER(loads_ladder), .accesses = SERIAL | 1u << CHASE_INDEPENDENT,
		.sweeps = 3, .sweeps_per_arena = 3, .touch_share = 0.5, .weight = 1.5,
	},
	[GROUP_STREAM] = {
		.name = "stream", .probe = "stream", .pages = PAGES_PACKED,
		LADDER(stream_ladder), .accesses = SEQUENTIAL,
		.sweeps = 5, .sweeps_per_arena = 5, .touch_share = 0.5, .weight = 0.4,
	},
	[GROUP_MEMORY] = {
		.name = "memory", .probe = "load", .pages = PAGES_PACKED,
		LADDER(memory_ladder), .accesses = 1u << CHASE_FLUSHED,
		.sweeps = 8, .sweeps_per_arena = 4, .touch_share = 0.5, .weight = 0.2,
	},
	[GROUP_RESIDENCY] = {
		.name = "residency", .probe = "residency", .pages = PAGES_PACKED,
		LADDER(residency_ladder), .accesses = SERIAL,
		.sweeps = 8, .sweeps_per_arena = 4, .touch_share = 0.5, .weight = 0.4,
	},
	[GROUP_LARGE] = {
		.name = "large", .probe = "tlb", .layout = "spread", .pages = PAGES_LARGER,
		LADDER(large_ladder), .accesses = SERIAL | OVERLAPPED,
		.sweeps = 24, .sweeps_per_arena = 24, .touch_share = 0.5, .weight = 6,
	},
	[GROUP_STORES] = {
		.name = "stores", .probe = "tlb", .layout = "spread", .pages = PAGES_BASE,
		LADDER(stores_ladder), .accesses = STORE,
		.sweeps = 60, .sweeps_per_arena = 2, .touch_share = 0.5, .weight = 0.2,
	},
	[GROUP_CHAINS] = {
		.name = "chains", .probe = "tlb", .layout = "spread", .pages = PAGES_BASE,
		LADDER(chains_ladder), .accesses = CHAINS,
		.sweeps = 32, .sweeps_per_arena = 4, .touch_share = 0.5, .weight = 1.5,
	},
	[GROUP_WAYS] = {
		.name = "ways", .probe = "tlb", .layout = "strided", .pages = PAGES_BASE,
		LADDER(ways_ladder), .accesses = SERIAL,
		.sweeps = 16, .sweeps_per_arena = 1, .touch_share = 0.9, .weight = 2,
	},
	[GROUP_REGIONS] = {
		.name = "regions", .probe = "tlb", .layout = "regions", .pages = PAGES_BASE,
		LADDER(regions_ladder), .accesses = SERIAL,
		.sweeps = 24, .sweeps_per_arena = 1, .touch_share = 0.9, .weight = 4,
	},
	[GROUP_CODE] = {
		.name = "code", .probe = "code", .layout = "spread", .pages = PAGES_BASE,
		LADDER(code_ladder), .accesses = SERIAL,
		.sweeps = 40, .sweeps_per_arena = 2, .touch_share = 0.5, .weight = 1.7,
	},
	[GROUP_CACHES] = {
		.name = "caches", .probe = "cache", .pages = PAGES_PACKED,
		LADDER(caches_ladder), .accesses = SERIAL,
		.sweeps = 8, .sweeps_per_arena = 1, .touch_share = 0.5, .weight = 20,
	},
};

const unsigned groups_default = 1u << GROUP_CYCLES | 1u << GROUP_FAULTS | 1u << GROUP_NEAR |
				1u << GROUP_MIDDLE | 1u << GROUP_FAR | 1u << GROUP_DENSE |
				1u << GROUP_LOADS | 1u << GROUP_STREAM | 1u << GROUP_MEMORY |
				1u << GROUP_RESIDENCY;

enum group_id group_named(const char *name, size_t length)
{
	enum group_id id = 0;

	while (id < GROUP_COUNT && (strlen(groups[id].name) != length ||
				    memcmp(groups[id].name, name, length) != 0))
		id++;
	return id;
}

/* Spacings of 1, 2, 4, ... pages: the fewer bits of the page number differ, the fewer sets are used. */
#define WAYS_SPACINGS 17

static size_t ways_series(const struct machine *machine, struct series model,
			  struct series *series)
{
	for (size_t i = 0; i < WAYS_SPACINGS; i++) {
		series[i] = model;
		series[i].layout = layout_strided(machine->base.bytes << i, machine->base.bytes,
						  machine->line_bytes);
		series[i].sparse = 1;
	}
	return WAYS_SPACINGS;
}

static size_t regions_series(const struct machine *machine, struct series model,
			     struct series *series)
{
	/* 520: the last number at which each of its 512 clusters has a region to itself. */
	static const unsigned counts[] = { 16, 24, 40, 56, 72, 104, 136, 200, 264, 392, 520 };
	struct layout layout;
	size_t n = 0;

	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		layout = layout_regions(counts[i], machine->base.bytes, machine->line_bytes);
		/* With long cache lines two numbers may be rounded up to the same. */
		if (n > 0 && layout.spacing == series[n - 1].layout.spacing)
			continue;
		series[n] = model;
		series[n].layout = layout;
		series[n++].sparse = 1;
	}
	return n;
}

/* Every third line: a prefetcher that fetches lines in pairs does not fetch the next one. */
static struct series windows_series(const struct machine *machine, struct series model,
				    size_t every)
{
	model.alone = 1;
	model.name = every == 1 ? "each" : "third";
	model.layout = layout_windows(every, machine->base.bytes, machine->line_bytes);
	return model;
}

size_t group_series(enum group_id id, const struct machine *machine, size_t page_bytes,
		    struct series series[MOST_SERIES])
{
	const struct group *group = &groups[id];
	const size_t base = machine->base.bytes, line = machine->line_bytes;
	struct series model = {
		.name = group->layout, .ladder = group->ladder, .points = group->points,
	};

	switch (id) {
	case GROUP_WAYS:
		return ways_series(machine, model, series);
	case GROUP_REGIONS:
		return regions_series(machine, model, series);
	case GROUP_CACHES:
		series[0] = windows_series(machine, model, 1);
		series[1] = windows_series(machine, model, 3);
		return 2;
	case GROUP_LOADS:
	case GROUP_MEMORY:
	case GROUP_RESIDENCY:
		series[0] = windows_series(machine, model, 3);
		return 1;
	case GROUP_STREAM:
		series[0] = windows_series(machine, model, 1);
		return 1;
	case GROUP_LARGE:
		/*
		 * Also one base page further: under a hypervisor that backs the guest with
		 * base pages the TLB holds base pages, and equal low bits would put them all
		 * into one set.
		 */
		model.layout = layout_apart(page_bytes, base + line);
		break;
	default:
		/* A line further, so that the lines fill the caches' sets evenly. */
		model.layout = layout_apart(base, line);
		break;
	}
	series[0] = model;
	return 1;
}
