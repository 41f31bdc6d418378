/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The command line of the tool. */
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
	.filter = True,
};

/* Read "entries:ways"; returns what follows, or NULL. */
static const HChar *parse_level(const HChar *text, struct tlb_geometry *level)
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
	HChar *end;
	Long bytes = VG_(strtoll10)(text, &end);

	if (*end || bytes < 4096 || (bytes & (bytes - 1)))
		return False;
	for (*shift = 0; 1LL << *shift < bytes; ++*shift)
		;
	return True;
}

static Bool process_option(const HChar *option)
{
	struct tlb_config *config = &tlbsim.config;
	const HChar *value;
	Bool good = True;

	if VG_BOOL_CLO(option, "--filter", tlbsim.filter) {}
	else if VG_STR_CLO(option, "--counts-dir", tlbsim.counts_dir) {}
	else if VG_STR_CLO(option, "--base-page", value)
		good = parse_page(value, &config->page_shift[TLB_BASE]);
	else if VG_STR_CLO(option, "--huge-page", value)
		good = parse_page(value, &config->page_shift[TLB_HUGE]);
	else if VG_STR_CLO(option, "--l1d", value)
		good = parse_geometry(value, config->l1d, True);
	else if VG_STR_CLO(option, "--l1i", value)
		good = parse_geometry(value, config->l1i, True);
	else if VG_STR_CLO(option, "--stlb", value)
		good = parse_geometry(value, config->stlb, False);
	else
		return False;
	if (!good)
		VG_(fmsg_bad_option)(option, "not a page size or geometry\n");
	return True;
}

static void print_usage(void)
{
	VG_(printf)(
"    --counts-dir=DIR          where each process leaves its counts [.]\n"
"    --base-page=BYTES         size of a base page [4096]\n"
"    --huge-page=BYTES         size of a huge page [2097152]\n"
"    --l1d=E:W,E:W             entries and ways of the L1 dTLB for base pages,\n"
"                              then for huge pages [64:4,32:4]\n"
"    --l1i=E:W,E:W             the same of the L1 iTLB [64:8,8:8]\n"
"    --stlb=E:W,E:W            the same of the STLB; 0:0 if it has none\n"
"                              [1536:12,1536:12]\n");
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
	if (!tlbsim.counts_dir)
		tlbsim.counts_dir = ".";
}

void tlbsim_options_register(void)
{
	VG_(needs_command_line_options)(process_option, print_usage,
					print_debug_usage);
}
