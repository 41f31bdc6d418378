/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "parse.h"

#include "timing/core.h"
#include "tlb/model.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_libcprint.h"

const HChar *parse_numbers(const HChar *text, UInt count, ULong numbers[])
{
	for (UInt i = 0; i < count; i++) {
		HChar *end;

		if (i && *text++ != ':')
			return NULL;
		numbers[i] = VG_(strtoull10)(text, &end);
		if (end == text)
			return NULL;
		text = end;
	}
	return text;
}

const HChar *parse_level(const HChar *text, struct tlb_geometry *level)
{
	ULong numbers[2];

	text = parse_numbers(text, 2, numbers);
	if (!text || numbers[0] > 1 << 20 || numbers[1] > numbers[0])
		return NULL;
	level->entries = (UInt)numbers[0];
	level->ways = (UInt)numbers[1];
	return tlb_geometry_valid(*level) ? text : NULL;
}

const HChar *parse_page_size(const HChar *text, UInt *shift)
{
	ULong bytes;

	text = parse_numbers(text, 1, &bytes);
	if (!text || bytes < 4096 || (bytes & (bytes - 1)))
		return NULL;
	for (*shift = 0; 1ULL << *shift < bytes; ++*shift)
		;
	return text;
}

/* Fields of --core: times are in cycles, except the intervals, which are in ticks. */
static const struct core_field {
	const HChar *name;
	SizeT offset;
	ULong least, most;
	UInt values;		/* at most, with colons between them */
} core_fields[] = {
#define FIELD(name, member, least, most) \
	{ name, offsetof(struct timing_config, member), least, most, 1 }
	FIELD("width", width, 1, 16),
	FIELD("reorder-buffer", reorder_buffer, 1, CORE_MOST_REORDER_BUFFER),
	FIELD("store-buffer", store_buffer, 1, CORE_MOST_STORE_BUFFER),
	FIELD("forward", forward, 0, 1000),
	FIELD("mispredict", mispredict, 0, 1000),
	FIELD("l1-bytes", l1.bytes, 1 << LINE_SHIFT, 1u << 28),
	FIELD("l1-ways", l1.ways, 1, 1 << 16),
	FIELD("l1-cycles", l1.cycles, 1, 1000),
	FIELD("l2-bytes", l2.bytes, 1 << LINE_SHIFT, 1u << 28),
	FIELD("l2-ways", l2.ways, 1, 1 << 16),
	FIELD("l2-cycles", l2.cycles, 1, 10000),
	FIELD("huge-contiguous", huge_contiguous, 0, 1),
	FIELD("pairs", pairs, 0, 1),
	FIELD("fill-buffers", fill_buffers, 1, 1000),
	FIELD("l3-bytes", l3_bytes, 0, ~0u),
	{ "l3-half-life-cycles",
	  offsetof(struct timing_config, l3_half_life_cycles), 0, ~0u,
	  MOST_HALF_LIVES },
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
	FIELD("isolated-pages", isolated_pages, 0, ~0u),
#undef FIELD
};

#define FIELDS (sizeof(core_fields) / sizeof(core_fields[0]))

/* The field that the text begins with, which "=" follows; or NULL. */
static const struct core_field *field_of(const HChar *text)
{
	for (UInt i = 0; i < FIELDS; i++) {
		SizeT length = VG_(strlen)(core_fields[i].name);

		if (!VG_(strncmp)(text, core_fields[i].name, length) &&
		    text[length] == '=')
			return &core_fields[i];
	}
	return NULL;
}

/* Read a field's value; returns its end, or NULL if it is wrong. */
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

Bool parse_core(const HChar *text, struct timing_config *core)
{
	while (*text) {
		const struct core_field *field = field_of(text);

		if (!field)
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

/* Where descriptions begin and end in --help. */
#define USAGE_INDENT 30
#define USAGE_WIDTH 80

void parse_print_core_fields(void)
{
	SizeT column = USAGE_WIDTH;

	for (UInt i = 0; i < FIELDS; i++) {
		const HChar *after = i + 1 < FIELDS ? "," : "";
		SizeT length = VG_(strlen)(core_fields[i].name);

		if (column + length + 2 > USAGE_WIDTH) {
			VG_(printf)("%s%*s", i ? "\n" : "", USAGE_INDENT, "");
			column = USAGE_INDENT;
		} else {
			VG_(printf)(" ");
			column++;
		}
		VG_(printf)("%s%s", core_fields[i].name, after);
		column += length + 1;
	}
	VG_(printf)("\n");
}
