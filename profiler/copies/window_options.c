/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "window_options.h"

#include <stdlib.h>
#include <string.h>

#include "engine/parse.h"

void window_options_init(struct window_options *options)
{
	*options = (struct window_options){
		.tlb = {
			.page_shift = { 12, 21 },
			.l1d = { { 64, 4 }, { 32, 4 } },
			.l1i = { { 64, 8 }, { 8, 8 } },
			.stlb = { { 1536, 12 }, { 1536, 12 } },
		},
		/* A server core of 2023 at 3.5 GHz, as the Valgrind tool has it. */
		.core = {
			.width = 6, .reorder_buffer = 512, .store_buffer = 112, .mispredict = 17,
			.l1 = { 48 << 10, 12, 5 }, .l2 = { 2 << 20, 16, 15 },
			.fill_buffers = 16, .l3_bytes = 64 << 20, .l3_cycles = 100,
			.memory_cycles = 330, .l3_interval = 4 * TICKS_PER_CYCLE,
			.memory_interval = 20 * TICKS_PER_CYCLE,
			.memory_apart = 40 * TICKS_PER_CYCLE, .stlb_cycles = 7,
			.walkers = 4, .walk_cycles = { 10, 10 }, .read_cycles = { 5, 5 },
			.directories = 32,
		},
		.warm = 5000000,
		.most_warm = 20000000,
		.least_warm = 100000,
		.core_warm = 40000,
		.measured = 100000,
	};
}

static bool levels(const char *text, struct tlb_geometry geometry[TLB_SIZES], bool must_exist)
{
	text = parse_level(text, &geometry[TLB_BASE]);
	if (!text || *text != ',')
		return false;
	text = parse_level(text + 1, &geometry[TLB_HUGE]);
	return text && !*text &&
	       (!must_exist || (geometry[TLB_BASE].entries && geometry[TLB_HUGE].entries));
}

static bool page_size(const char *text, uint32_t *shift)
{
	text = parse_page_size(text, shift);
	return text && !*text;
}

static bool number(const char *text, uint64_t most, uint64_t *value)
{
	text = parse_numbers(text, 1, value);
	return text && !*text && *value <= most;
}

static bool cycle(struct window_options *options, const char *text)
{
	uint64_t value;

	if (!number(text, 100000, &value))
		return false;
	options->cycle_ps = (uint32_t)value;
	return true;
}

static const char *cache(const char *text, uint32_t *bytes, uint32_t *ways)
{
	uint64_t numbers[2];

	text = parse_numbers(text, 2, numbers);
	if (!text || numbers[0] > UINT64_C(1) << 31 || numbers[1] > UINT64_C(1) << 16)
		return NULL;
	*bytes = (uint32_t)numbers[0];
	*ways = (uint32_t)numbers[1];
	return text;
}

/* The second level and the share of the third: "1048576:16,2097152:16". */
static bool dram_caches(const char *text, struct placement_config *caches)
{
	text = cache(text, &caches->l2_bytes, &caches->l2_ways);
	if (!text || *text != ',')
		return false;
	text = cache(text + 1, &caches->l3_bytes, &caches->l3_ways);
	return text && !*text && cache_valid(caches->l2_bytes, caches->l2_ways) &&
	       (!caches->l3_bytes || cache_valid(caches->l3_bytes, caches->l3_ways));
}

#define MOST_REFERENCES (UINT64_C(1) << 40)

int window_options_take(struct window_options *options, const char *name, const char *value)
{
	struct tlb_config *tlb = &options->tlb;
	bool good;

	if (!strcmp(name, "base-page")) {
		good = page_size(value, &tlb->page_shift[TLB_BASE]);
	} else if (!strcmp(name, "huge-page")) {
		good = page_size(value, &tlb->page_shift[TLB_HUGE]);
	} else if (!strcmp(name, "l1d")) {
		good = levels(value, tlb->l1d, true);
	} else if (!strcmp(name, "l1i")) {
		good = levels(value, tlb->l1i, true);
	} else if (!strcmp(name, "stlb")) {
		good = levels(value, tlb->stlb, false);
	} else if (!strcmp(name, "stlb-folded")) {
		tlb->stlb_folded = !strcmp(value, "yes");
		good = tlb->stlb_folded || !strcmp(value, "no");
	} else if (!strcmp(name, "core")) {
		options->timed = true;
		options->core_text = value;
		good = parse_core(value, &options->core);
	} else if (!strcmp(name, "warm")) {
		good = number(value, MOST_REFERENCES, &options->warm);
	} else if (!strcmp(name, "most-warm")) {
		good = number(value, MOST_REFERENCES, &options->most_warm);
	} else if (!strcmp(name, "least-warm")) {
		good = number(value, MOST_REFERENCES, &options->least_warm);
	} else if (!strcmp(name, "core-warm")) {
		good = number(value, MOST_REFERENCES, &options->core_warm);
	} else if (!strcmp(name, "measure")) {
		good = number(value, MOST_REFERENCES, &options->measured) && options->measured;
	} else if (!strcmp(name, "cycle-ps")) {
		good = cycle(options, value);
	} else if (!strcmp(name, "dram")) {
		good = dram_caches(value, &options->dram);
	} else {
		return 0;
	}
	return good ? 1 : -1;
}

const char *window_options_check(struct window_options *options)
{
	if (options->tlb.page_shift[TLB_BASE] >= options->tlb.page_shift[TLB_HUGE])
		return "--huge-page is not above --base-page";
	if (options->most_warm < options->warm)
		options->most_warm = options->warm;
	if (options->least_warm > options->warm)
		options->least_warm = options->warm;
	return NULL;
}
