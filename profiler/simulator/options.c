/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "options.h"
#include "engine/parse.h"
#include "engine/view_options.h"
#include "region.h"

#include "timing/cache.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_options.h"
#include "pub_tool_tooliface.h"

/* The same as `options`, which others see: only the command line changes it. */
static struct options given = {
	/* Most x86 cores of the 2010s; the command line overrides it. */
	.tlb = {
		.page_shift = { 12, 21 },
		.l1d = { { 64, 4 }, { 32, 4 } },
		.l1i = { { 64, 8 }, { 8, 8 } },
		.stlb = { { 1536, 12 }, { 1536, 12 } },
	},
	.windows.core_text = "as built",
	.windows.core = {
		/* A server core of 2023 at 3.5 GHz; the command line overrides it. */
		.width = 6, .reorder_buffer = 512, .store_buffer = 112, .mispredict = 17,
		.l1 = { 48 << 10, 12, 5 }, .l2 = { 2 << 20, 16, 15 },
		.fill_buffers = 16, .l3_bytes = 64 << 20, .l3_cycles = 100,
		.memory_cycles = 330, .l3_interval = 4 * TICKS_PER_CYCLE,
		.memory_interval = 20 * TICKS_PER_CYCLE,
		.memory_apart = 40 * TICKS_PER_CYCLE, .stlb_cycles = 7,
		.walkers = 4, .walk_cycles = { 10, 10 }, .read_cycles = { 5, 5 },
		.directories = 32, .host_shift = 0,
	},
	/* The second level and the share of the third of servers of the 2010s. */
	.numa.caches = { .l2_bytes = 1 << 20, .l2_ways = 16,
			    .l3_bytes = 2 << 20, .l3_ways = 16 },
	.filter = True,
};

extern const struct options options __attribute__((alias("given")));

/* Read the levels for base and for huge pages: "96:6,32:4". */
static Bool parse_levels(const HChar *text,
			 struct tlb_geometry levels[TLB_SIZES], Bool required)
{
	text = parse_level(text, &levels[TLB_BASE]);
	if (!text || *text != ',')
		return False;
	text = parse_level(text + 1, &levels[TLB_HUGE]);
	if (!text || *text)
		return False;
	return !required || (levels[TLB_BASE].entries && levels[TLB_HUGE].entries);
}

static Bool parse_page(const HChar *text, UInt *shift)
{
	text = parse_page_size(text, shift);
	return text && !*text;
}

#define MOST_WINDOWS 65536u

/* Read "period:warm:measured:most". */
static Bool parse_windows(const HChar *text, struct windows_config *config)
{
	uint64_t numbers[4];

	text = parse_numbers(text, 4, numbers);
	if (!text || *text)
		return False;
	config->period = numbers[0];
	config->warm = numbers[1];
	config->measured = numbers[2];
	config->most = (UInt)numbers[3];
	return config->measured && numbers[3] >= 2 &&
	       numbers[3] <= MOST_WINDOWS &&
	       config->period >= config->warm + config->measured;
}

#define MOST_REFERENCES (1ULL << 40)

/* Read "period:warm:measured". */
static Bool parse_placement(const HChar *text, struct numa_config *config)
{
	uint64_t numbers[3];

	text = parse_numbers(text, 3, numbers);
	if (!text || *text)
		return False;
	config->period = numbers[0];
	config->warm = numbers[1];
	config->measured = numbers[2];
	return config->measured && config->warm <= MOST_REFERENCES &&
	       config->period <= MOST_REFERENCES &&
	       config->measured <= config->period &&
	       config->period >= config->warm + config->measured;
}

static const HChar *parse_cache(const HChar *text, UInt *bytes, UInt *ways)
{
	uint64_t numbers[2];

	text = parse_numbers(text, 2, numbers);
	if (!text || numbers[0] > 1u << 31 || numbers[1] > 1 << 16)
		return NULL;
	*bytes = (UInt)numbers[0];
	*ways = (UInt)numbers[1];
	return text;
}

/* Read the second level and the share of the third: "1048576:16,2097152:16". */
static Bool parse_placement_caches(const HChar *text,
				   struct placement_config *caches)
{
	text = parse_cache(text, &caches->l2_bytes, &caches->l2_ways);
	if (!text || *text != ',')
		return False;
	text = parse_cache(text + 1, &caches->l3_bytes, &caches->l3_ways);
	return text && !*text &&
	       cache_valid(caches->l2_bytes, caches->l2_ways) &&
	       (!caches->l3_bytes ||
		cache_valid(caches->l3_bytes, caches->l3_ways));
}

static Bool add_view(const HChar *text)
{
	const UInt number = given.view_count;

	if (!view_option(text, number, given.view_configs))
		return False;
	given.view_count++;
	given.views[number].text = text;
	return True;
}

/* Of the view that was named last. */
static Bool set_view_core(const HChar *text)
{
	struct view_option *view;

	if (!given.view_count)
		return False;
	view = &given.views[given.view_count - 1];
	view->core_text = text;
	view->core = given.windows.core;
	return parse_core(text, &view->core);
}

static Bool process_option(const HChar *option)
{
	struct tlb_config *config = &given.tlb;
	const HChar *value;
	Bool good = True, folded;

	if VG_BOOL_CLO(option, "--filter", given.filter) {}
	else if VG_BOOL_CLO(option, "--attribute", given.attribute) {}
	else if VG_STR_CLO(option, "--counts-dir", given.counts_dir) {}
	else if VG_STR_CLO(option, "--base-page", value)
		good = parse_page(value, &config->page_shift[TLB_BASE]);
	else if VG_STR_CLO(option, "--huge-page", value)
		good = parse_page(value, &config->page_shift[TLB_HUGE]);
	else if VG_STR_CLO(option, "--l1d", value)
		good = parse_levels(value, config->l1d, True);
	else if VG_STR_CLO(option, "--l1i", value)
		good = parse_levels(value, config->l1i, True);
	else if VG_STR_CLO(option, "--stlb", value)
		good = parse_levels(value, config->stlb, False);
	else if VG_BOOL_CLO(option, "--stlb-folded", folded)
		config->stlb_folded = folded;
	else if VG_STR_CLO(option, "--windows", value)
		good = parse_windows(value, &given.windows);
	else if VG_STR_CLO(option, "--core", given.windows.core_text)
		good = parse_core(given.windows.core_text, &given.windows.core);
	else if VG_STR_CLO(option, "--view", value)
		good = add_view(value);
	else if VG_STR_CLO(option, "--view-core", value)
		good = set_view_core(value);
	else if VG_STR_CLO(option, "--region-start", value)
		good = region_add_start(value);
	else if VG_STR_CLO(option, "--region-end", value)
		good = region_add_end(value);
	else if VG_STR_CLO(option, "--placement", value)
		good = parse_placement(value, &given.numa);
	else if VG_STR_CLO(option, "--placement-caches", value)
		good = parse_placement_caches(value, &given.numa.caches);
	else
		return False;
	if (!good)
		VG_(fmsg_bad_option)(option, "not a valid value for this option\n");
	return True;
}

/* Where descriptions begin and end in --help. */
#define USAGE_INDENT 30
#define USAGE_WIDTH 80

static void print_core_fields(void)
{
	const HChar *name, *next;
	SizeT column = USAGE_WIDTH;

	for (UInt i = 0; (name = parse_core_field(i)); i++) {
		const SizeT length = VG_(strlen)(name);

		next = parse_core_field(i + 1);
		if (column + length + 2 > USAGE_WIDTH) {
			VG_(printf)("%s%*s", i ? "\n" : "", USAGE_INDENT, "");
			column = USAGE_INDENT;
		} else {
			VG_(printf)(" ");
			column++;
		}
		VG_(printf)("%s%s", name, next ? "," : "");
		column += length + 1;
	}
	VG_(printf)("\n");
}

static void print_usage(void)
{
	VG_(printf)(
"    --counts-dir=DIR          where each process writes its counts [.]\n"
"    --attribute=no|yes        write which memory and which code misses, and when,\n"
"                              in further tables [no]\n"
"    --base-page=BYTES         size of a base page [4096]\n"
"    --huge-page=BYTES         size of a huge page [2097152]\n"
"    --l1d=E:W,E:W             entries and ways of the L1 dTLB for base pages,\n"
"                              then for huge pages [64:4,32:4]\n"
"    --l1i=E:W,E:W             the same for the L1 iTLB [64:8,8:8]\n"
"    --stlb=E:W,E:W            the same of the STLB; 0:0 if it has none\n"
"                              [1536:12,1536:12]\n"
"    --stlb-folded=no|yes      the STLB's sets are chosen by the page's number\n"
"                              xored with itself, as on many Intel cores [no]\n"
"    --windows=PERIOD:WARM:MEASURED:MOST\n"
"                              time the code, too, in one window of MEASURED\n"
"                              references, after WARM to warm the caches, of\n"
"                              each PERIOD of references, which doubles\n"
"                              whenever there are MOST windows [none]\n"
"    --core=NAME=VALUE,...     the core that is timed; up to 16 values with colons\n"
"                              where a name stands for several measurements:\n");
	print_core_fields();
	VG_(printf)(
"    --view=page=BYTES,l1d=E:W,l1i=E:W,stlb=E:W[,code-stlb=E:W][,folded=1][,rest=N]\n"
"                              count for these TLBs, too, all memory being on\n"
"                              pages of that size; code-stlb: code has a second\n"
"                              level of its own; rest=N: where no mapping spans a\n"
"                              whole page, memory is as in view N, or as on the\n"
"                              base pages above (b); up to 24 views\n"
"    --view-core=NAME=VALUE,...\n"
"                              the core that the --view before this is timed\n"
"                              on, in the words of --core [--core]\n"
"    --region-start=OFFSET:FILE\n"
"                              look at the program only from this place in a file\n"
"                              on, up to one of --region-end; may be repeated [all]\n"
"    --region-end=OFFSET:FILE  where that ends, until the next start; may be repeated\n"
"    --placement=PERIOD:WARM:MEASURED\n"
"                              write which thread accesses memory for which page:\n"
"                              of each thread's PERIOD references WARM fill its\n"
"                              caches, and MEASURED are counted [none]\n"
"    --placement-caches=L2:W,L3:W\n"
"                              bytes and ways of a thread's L2 cache and of its\n"
"                              share of the L3 [1048576:16,2097152:16]\n");
}

static void print_debug_usage(void)
{
	VG_(printf)(
"    --filter=no|yes           skip references that cannot change the model,\n"
"                              without a call; the counts are the same [yes]\n");
}

void options_check(void)
{
	if (given.tlb.page_shift[TLB_BASE] >=
	    given.tlb.page_shift[TLB_HUGE])
		VG_(fmsg_bad_option)("--huge-page", "not above --base-page\n");
	for (UInt i = 0; i < given.view_count; i++) {
		if (given.view_configs[i].page_shift <
		    given.tlb.page_shift[TLB_BASE])
			VG_(fmsg_bad_option)("--view", "page below --base-page\n");
		if (!given.views[i].core_text) {
			given.views[i].core_text = given.windows.core_text;
			given.views[i].core = given.windows.core;
		}
	}
	if (!given.counts_dir)
		given.counts_dir = ".";
}

void options_register(void)
{
	VG_(needs_command_line_options)(process_option, print_usage,
					print_debug_usage);
}
