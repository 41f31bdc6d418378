/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The options of placing, and its tables: "placement" and "touches" in doc/format.md. */
#include "placing.h"

#include "pub_tool_clientstate.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_libcfile.h"
#include "pub_tool_libcprint.h"
#include "pub_tool_libcproc.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"

static HChar *placement_path, *touches_path;

static const HChar *parse_number(const HChar *text, ULong least, ULong most,
				 HChar after, ULong *value)
{
	HChar *end;

	*value = VG_(strtoull10)(text, &end);
	if (end == text || *value < least || *value > most || *end != after)
		return NULL;
	return after ? end + 1 : end;
}

#define MOST_REFERENCES (1ULL << 40)

Bool placing_parse(const HChar *text)
{
	struct placing_config *placing = &tlbsim.placing;

	text = parse_number(text, 1, MOST_REFERENCES, ':', &placing->period);
	if (text)
		text = parse_number(text, 0, MOST_REFERENCES, ':', &placing->warm);
	if (text)
		text = parse_number(text, 1, MOST_REFERENCES, 0, &placing->measured);
	return text && placing->period >= placing->warm + placing->measured;
}

static const HChar *parse_cache(const HChar *text, HChar after, UInt *bytes,
				UInt *ways)
{
	ULong value;

	text = parse_number(text, 0, 1u << 31, ':', &value);
	*bytes = (UInt)value;
	if (text)
		text = parse_number(text, 0, 1 << 16, after, &value);
	*ways = (UInt)value;
	return text;
}

Bool placing_parse_caches(const HChar *text)
{
	struct placement_config *caches = &tlbsim.placing.caches;

	text = parse_cache(text, ',', &caches->l2_bytes, &caches->l2_ways);
	if (text)
		text = parse_cache(text, 0, &caches->l3_bytes, &caches->l3_ways);
	return text && cache_valid(caches->l2_bytes, caches->l2_ways) &&
	       (!caches->l3_bytes ||
		cache_valid(caches->l3_bytes, caches->l3_ways));
}

void placing_name(const HChar *folder, UInt image)
{
	SizeT bytes = VG_(strlen)(folder) + 48;

	if (!tlbsim.placing.period)
		return;
	if (!placement_path) {
		placement_path = VG_(malloc)("tlbsim.path", bytes);
		touches_path = VG_(malloc)("tlbsim.path", bytes);
	}
	VG_(snprintf)(placement_path, (Int)bytes, "%s/placement.%d.%u.tsv",
		      folder, VG_(getpid)(), image);
	VG_(snprintf)(touches_path, (Int)bytes, "%s/touches.%d.%u.tsv", folder,
		      VG_(getpid)(), image);
}

/* Begin a table; NULL, with a complaint, if it cannot be written. */
static VgFile *begin(const HChar *path, const HChar *kind, const HChar *state)
{
	VgFile *file = VG_(fopen)(path, VKI_O_CREAT | VKI_O_WRONLY | VKI_O_TRUNC,
				  0644);

	if (!file) {
		VG_(umsg)("tlbsim: cannot write %s\n", path);
		return NULL;
	}
	VG_(fprintf)(file, "# tlbcost %s 1\n", kind);
	VG_(fprintf)(file, "# pid: %d\n", VG_(getpid)());
	VG_(fprintf)(file, "# program: %s\n", VG_(args_the_exename));
	VG_(fprintf)(file, "# state: %s\n", state);
	VG_(fprintf)(file, "# base_page_bytes: %llu\n",
		     1ULL << tlbsim.config.page_shift[TLB_BASE]);
	VG_(fprintf)(file, "# huge_page_bytes: %llu\n",
		     1ULL << tlbsim.config.page_shift[TLB_HUGE]);
	return file;
}

static void write_header(VgFile *file)
{
	const struct placing_config *placing = &tlbsim.placing;
	const struct placement *placement = &tlbsim_placement;

	VG_(fprintf)(file, "# l2: %u:%u\n", placing->caches.l2_bytes,
		     placing->caches.l2_ways);
	VG_(fprintf)(file, "# l3: %u:%u\n", placing->caches.l3_bytes,
		     placing->caches.l3_ways);
	VG_(fprintf)(file, "# period: %llu\n", placing->period);
	VG_(fprintf)(file, "# warm: %llu\n", placing->warm);
	VG_(fprintf)(file, "# measured: %llu\n", placing->measured);
	VG_(fprintf)(file, "# references: %llu\n",
		     tlbsim_clock - tlbsim_placing_times.origin);
	VG_(fprintf)(file, "# interval: %llu\n", tlbsim_placing_times.interval);
	VG_(fprintf)(file, "# intervals: %u\n", placement->interval + 1);
	VG_(fprintf)(file, "# l2_misses: %llu\n", (ULong)placement->l2_misses);
	VG_(fprintf)(file, "# walk_l2_misses: %llu\n",
		     (ULong)placement->walk_l2_misses);
}

static void write_placement(VgFile *file)
{
	const struct placement *placement = &tlbsim_placement;
	SizeT rows = 0;

	VG_(fprintf)(file, "page\tthread\twritten");
	for (UInt i = 0; i < PLACEMENT_INTERVALS; i++)
		VG_(fprintf)(file, "\taccesses_%u", i);
	VG_(fprintf)(file, "\n");
	for (SizeT i = 0; i < placement->capacity; i++) {
		const struct placement_count *count = &placement->counts[i];

		if (!count->key)
			continue;
		VG_(fprintf)(file, "%llu\t%u\t%u", (ULong)count->key >> 16,
			     (UInt)(count->key & 0xffff), count->written);
		for (UInt j = 0; j < PLACEMENT_INTERVALS; j++)
			VG_(fprintf)(file, "\t%u", count->accesses[j]);
		VG_(fprintf)(file, "\n");
		rows++;
	}
	VG_(fprintf)(file, "# end: %llu\n", (ULong)rows);
}

static void write_touches(VgFile *file)
{
	static const HChar *const kinds[PLACEMENT_KINDS] = {
		[PLACEMENT_HUGE] = "huge",
		[PLACEMENT_ANONYMOUS] = "anonymous",
		[PLACEMENT_OTHER] = "other",
	};
	const struct placement *placement = &tlbsim_placement;

	VG_(fprintf)(file, "page\tthread\tkind\n");
	for (SizeT i = 0; i < placement->touch_count; i++) {
		const struct placement_touch *touch = &placement->touches[i];

		VG_(fprintf)(file, "%llu\t%u\t%s\n", (ULong)touch->page,
			     (UInt)touch->thread, kinds[touch->kind]);
	}
	VG_(fprintf)(file, "# end: %llu\n", (ULong)placement->touch_count);
}

void placing_write(const HChar *state)
{
	const Bool rows = VG_(strcmp)(state, "running") != 0;
	VgFile *file;

	if (!tlbsim.placing.period || !placement_path)
		return;
	/* Counts that fell short are no counts. */
	if (rows && (tlbsim_placement.failed || tlbsim.touched.failed))
		state = "failed";
	file = begin(placement_path, "placement", state);
	if (file) {
		if (rows) {
			write_header(file);
			write_placement(file);
		}
		VG_(fclose)(file);
	}
	file = begin(touches_path, "touches", state);
	if (file) {
		if (rows)
			write_touches(file);
		VG_(fclose)(file);
	}
}
