/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line of the tool. */
#include "cache.h"
#include "core.h"
#include "placing.h"
#include "tlbsim.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_options.h"

struct tlbsim tlbsim = {
	/* What most x86 cores of the 2010s have; the command line says better. */
	.config = {
		.page_shift = { 12, 21 },
		.l1d = { { 64, 4 }, { 32, 4 } },
		.l1i = { { 64, 8 }, { 8, 8 } },
		.stlb = { { 1536, 12 }, { 1536, 12 } },
	},
	.windows.core_text = "as built",
	.windows.core = {
		/* A server core of 2023 at 3.5 GHz; the command line says better. */
		.width = 6, .window = 512, .stores = 112, .mispredict = 17,
		.l1 = { 48 << 10, 12, 5 }, .l2 = { 2 << 20, 16, 15 },
		.misses = 16, .l3_bytes = 64 << 20, .l3_cycles = 100,
		.memory_cycles = 330, .l3_interval = 4 * TICKS_PER_CYCLE,
		.memory_interval = 20 * TICKS_PER_CYCLE,
		.memory_apart = 40 * TICKS_PER_CYCLE, .stlb_cycles = 7,
		.walkers = 4, .walk_cycles = { 10, 10 }, .read_cycles = { 5, 5 },
		.directories = 32, .host_shift = 0,
	},
	/* A second level and a share of the third as the servers of the 2010s had. */
	.placing.caches = { .l2_bytes = 1 << 20, .l2_ways = 16,
			    .l3_bytes = 2 << 20, .l3_ways = 16 },
	.filter = True,
};

const HChar *tlbsim_parse_level(const HChar *text, struct tlb_geometry *level)
{
	HChar *end;
	Long entries = VG_(strtoll10)(text, &end), ways;

	if (end == text || *end != ':')
		return NULL;
	text = end + 1;
	ways = VG_(strtoll10)(text, &end);
	if (end == text || entries < 0 || entries > 1 << 20 || ways < 0 ||
	    ways > entries)
		return NULL;
	level->entries = (UInt)entries;
	level->ways = (UInt)ways;
	return tlb_geometry_valid(*level) ? end : NULL;
}

/* Read the levels for base and for huge pages: "96:6,32:4". */
static Bool parse_geometry(const HChar *text,
			   struct tlb_geometry levels[TLB_SIZES], Bool required)
{
	text = tlbsim_parse_level(text, &levels[TLB_BASE]);
	if (!text || *text != ',')
		return False;
	text = tlbsim_parse_level(text + 1, &levels[TLB_HUGE]);
	if (!text || *text)
		return False;
	return !required || (levels[TLB_BASE].entries && levels[TLB_HUGE].entries);
}

Bool tlbsim_parse_page(const HChar *text, UInt *shift)
{
	HChar *end;
	Long bytes = VG_(strtoll10)(text, &end);

	if (*end || bytes < 4096 || (bytes & (bytes - 1)))
		return False;
	for (*shift = 0; 1LL << *shift < bytes; ++*shift)
		;
	return True;
}

/* Fields of --core; times are cycles there, but the intervals, which are ticks. */
static const struct core_field {
	const HChar *name;
	SizeT offset;
	ULong least, most;
	UInt values;		/* at most, with colons between them */
} core_fields[] = {
#define FIELD(name, member, least, most) \
	{ name, offsetof(struct timing_config, member), least, most, 1 }
	FIELD("width", width, 1, 16),
	FIELD("window", window, 1, CORE_MOST_WINDOW),
	FIELD("stores", stores, 1, CORE_MOST_STORES),
	FIELD("forward", forward, 0, 1000),
	FIELD("mispredict", mispredict, 0, 1000),
	FIELD("l1-bytes", l1.bytes, 1 << LINE_SHIFT, 1u << 28),
	FIELD("l1-ways", l1.ways, 1, 1 << 16),
	FIELD("l1-cycles", l1.cycles, 1, 1000),
	FIELD("l2-bytes", l2.bytes, 1 << LINE_SHIFT, 1u << 28),
	FIELD("l2-ways", l2.ways, 1, 1 << 16),
	FIELD("l2-cycles", l2.cycles, 1, 10000),
	FIELD("whole", whole, 0, 1),
	FIELD("pairs", pairs, 0, 1),
	FIELD("misses", misses, 1, 1000),
	FIELD("l3-bytes", l3_bytes, 0, ~0u),
	{ "l3-kept", offsetof(struct timing_config, l3_kept), 0, ~0u, MOST_KEPT },
	FIELD("l3-cycles", l3_cycles, 1, 10000),
	FIELD("l3-interval", l3_interval, 1, 100000),
	FIELD("memory-cycles", memory_cycles, 1, 10000),
	FIELD("memory-interval", memory_interval, 1, 100000),
	FIELD("memory-apart", memory_apart, 1, 100000),
	FIELD("stlb-cycles", stlb_cycles, 0, 1000),
	FIELD("walkers", walkers, 1, 64),
	FIELD("walk-cycles", walk_cycles[TLB_BASE], 0, 10000),
	FIELD("huge-walk-cycles", walk_cycles[TLB_HUGE], 0, 10000),
	FIELD("read-cycles", read_cycles[TLB_BASE], 0, 10000),
	FIELD("huge-read-cycles", read_cycles[TLB_HUGE], 0, 10000),
	FIELD("directories", directories, 0, MOST_DIRECTORIES),
	FIELD("directory-ways", directory_ways, 0, MOST_DIRECTORIES),
	FIELD("pointers", pointers, 0, MOST_DIRECTORIES),
	FIELD("roots", roots, 0, MOST_DIRECTORIES),
	FIELD("row-cycles", row_cycles, 0, 10000),
	FIELD("host-shift", host_shift, 0, 40),
	FIELD("scattered", scattered, 0, ~0u),
#undef FIELD
};

/* Read what a field is set to; where that ends, or NULL if it is wrong. */
static const HChar *parse_field(const struct core_field *field, const HChar *text,
				struct timing_config *core)
{
	UInt *member = (UInt *)((HChar *)core + field->offset);

	for (UInt i = 0; i < field->values; i++) {
		HChar *rest;
		ULong value = VG_(strtoull10)(text, &rest);

		if (rest == text || value < field->least || value > field->most)
			return NULL;
		member[i] = (UInt)value;
		text = rest;
		if (*text != ':')
			break;
		text++;
	}
	return *text && *text != ',' ? NULL : text;
}

/* Read "name=value,name=value:value,..." */
Bool tlbsim_parse_core(const HChar *text, struct timing_config *core)
{
	while (*text) {
		const struct core_field *field = core_fields;
		const struct core_field *end =
			field + sizeof(core_fields) / sizeof(core_fields[0]);

		while (field < end &&
		       (VG_(strncmp)(text, field->name, VG_(strlen)(field->name)) ||
			text[VG_(strlen)(field->name)] != '='))
			field++;
		if (field == end)
			return False;
		text = parse_field(field, text + VG_(strlen)(field->name) + 1, core);
		if (!text)
			return False;
		if (*text)
			text++;
	}
	return cache_valid(core->l1.bytes, core->l1.ways) &&
	       cache_valid(core->l2.bytes, core->l2.ways);
}

#define MOST_WINDOWS 65536u

/* Read "period:warm:measured:most". */
static Bool parse_windows(const HChar *text)
{
	struct windows_config *windows = &tlbsim.windows;
	ULong most;
	HChar *end;

	windows->period = VG_(strtoull10)(text, &end);
	if (*end != ':')
		return False;
	windows->warm = VG_(strtoull10)(end + 1, &end);
	if (*end != ':')
		return False;
	windows->measured = VG_(strtoull10)(end + 1, &end);
	if (*end != ':')
		return False;
	most = VG_(strtoull10)(end + 1, &end);
	windows->most = (UInt)most;
	return !*end && windows->measured && most >= 2 &&
	       most <= MOST_WINDOWS &&
	       windows->period >= windows->warm + windows->measured;
}

static Bool process_option(const HChar *option)
{
	struct tlb_config *config = &tlbsim.config;
	const HChar *value;
	Bool good = True, folded;

	if VG_BOOL_CLO(option, "--filter", tlbsim.filter) {}
	else if VG_BOOL_CLO(option, "--attribute", tlbsim.attribute) {}
	else if VG_STR_CLO(option, "--counts-dir", tlbsim.counts_dir) {}
	else if VG_STR_CLO(option, "--base-page", value)
		good = tlbsim_parse_page(value, &config->page_shift[TLB_BASE]);
	else if VG_STR_CLO(option, "--huge-page", value)
		good = tlbsim_parse_page(value, &config->page_shift[TLB_HUGE]);
	else if VG_STR_CLO(option, "--l1d", value)
		good = parse_geometry(value, config->l1d, True);
	else if VG_STR_CLO(option, "--l1i", value)
		good = parse_geometry(value, config->l1i, True);
	else if VG_STR_CLO(option, "--stlb", value)
		good = parse_geometry(value, config->stlb, False);
	else if VG_BOOL_CLO(option, "--stlb-folded", folded)
		config->stlb_folded = folded;
	else if VG_STR_CLO(option, "--windows", value)
		good = parse_windows(value);
	else if VG_STR_CLO(option, "--core", tlbsim.windows.core_text)
		good = tlbsim_parse_core(tlbsim.windows.core_text,
					 &tlbsim.windows.core);
	else if VG_STR_CLO(option, "--view", value)
		good = tlbsim_parse_view(value);
	else if VG_STR_CLO(option, "--view-core", value)
		good = tlbsim_parse_view_core(value);
	else if VG_STR_CLO(option, "--placement", value)
		good = placing_parse(value);
	else if VG_STR_CLO(option, "--placement-caches", value)
		good = placing_parse_caches(value);
	else
		return False;
	if (!good)
		VG_(fmsg_bad_option)(option, "not what this option takes\n");
	return True;
}

static void print_usage(void)
{
	VG_(printf)(
"    --counts-dir=DIR          where each process leaves its counts [.]\n"
"    --attribute=no|yes        tell which memory and which code misses, and when,\n"
"                              in further tables [no]\n"
"    --base-page=BYTES         size of a base page [4096]\n"
"    --huge-page=BYTES         size of a huge page [2097152]\n"
"    --l1d=E:W,E:W             entries and ways of the L1 dTLB for base pages,\n"
"                              then for huge pages [64:4,32:4]\n"
"    --l1i=E:W,E:W             the same of the L1 iTLB [64:8,8:8]\n"
"    --stlb=E:W,E:W            the same of the STLB; 0:0 if it has none\n"
"                              [1536:12,1536:12]\n"
"    --stlb-folded=no|yes      the STLB's sets are chosen by the page's number\n"
"                              xored with itself, as on many Intel cores [no]\n"
"    --windows=PERIOD:WARM:MEASURED:MOST\n"
"                              time the code, too, in one window of MEASURED\n"
"                              references, after WARM to warm the caches, of\n"
"                              each PERIOD of references, which doubles\n"
"                              whenever there are MOST windows [none]\n"
"    --core=NAME=VALUE,...     the core that is timed: width, window, stores,\n"
"                              forward, mispredict, l1-bytes, l1-ways, l1-cycles, l2-...,\n"
"                              whole, pairs, misses, l3-bytes, l3-kept (up to 16 with colons),\n"
"                              l3-cycles, l3-interval,\n"
"                              memory-cycles, memory-interval, memory-apart,\n"
"                              stlb-cycles,\n"
"                              walkers, walk-cycles, huge-walk-cycles,\n"
"                              read-cycles, huge-read-cycles, directories,\n"
"                              directory-ways, pointers, roots, row-cycles,\n"
"                              host-shift, scattered\n"
"    --view=page=BYTES,l1d=E:W,l1i=E:W,stlb=E:W[,code-stlb=E:W][,folded=1][,rest=N]\n"
"                              count for these TLBs, too, all memory being on\n"
"                              pages of that size; code-stlb: code has a second\n"
"                              level of its own; rest=N: where no mapping spans a\n"
"                              whole page, memory is as in view N, or as on the\n"
"                              base pages above (b); up to 24 views\n"
"    --view-core=NAME=VALUE,...\n"
"                              the core that the --view before this is timed\n"
"                              on, in the words of --core [--core]\n"
"    --placement=PERIOD:WARM:MEASURED\n"
"                              tell which thread goes to memory for which page:\n"
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

void tlbsim_options_check(void)
{
	if (tlbsim.config.page_shift[TLB_BASE] >=
	    tlbsim.config.page_shift[TLB_HUGE])
		VG_(fmsg_bad_option)("--huge-page", "not above --base-page\n");
	for (UInt i = 0; i < tlbsim.view_count; i++) {
		if (tlbsim.view_configs[i].page_shift <
		    tlbsim.config.page_shift[TLB_BASE])
			VG_(fmsg_bad_option)("--view", "page below --base-page\n");
		if (!tlbsim.views[i].core_text) {
			tlbsim.views[i].core_text = tlbsim.windows.core_text;
			tlbsim.views[i].core = tlbsim.windows.core;
		}
	}
	if (!tlbsim.counts_dir)
		tlbsim.counts_dir = ".";
}

void tlbsim_options_register(void)
{
	VG_(needs_command_line_options)(process_option, print_usage,
					print_debug_usage);
}
