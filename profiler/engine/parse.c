/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "parse.h"

#include "timing/core.h"
#include "tlb/model.h"


/* A decimal number; returns its end, or NULL if there is none or it is too large. */
static const char *parse_number(const char *text, uint64_t *number)
{
	const char *start = text;

	for (*number = 0; *text >= '0' && *text <= '9'; text++) {
		if (*number > (UINT64_MAX - 9) / 10)
			return NULL;
		*number = 10 * *number + (uint64_t)(*text - '0');
	}
	return text == start ? NULL : text;
}

const char *parse_numbers(const char *text, uint32_t count, uint64_t numbers[])
{
	for (uint32_t i = 0; i < count; i++) {
		if (i && *text++ != ':')
			return NULL;
		text = parse_number(text, &numbers[i]);
		if (!text)
			return NULL;
	}
	return text;
}

const char *parse_level(const char *text, struct tlb_geometry *level)
{
	uint64_t numbers[2];

	text = parse_numbers(text, 2, numbers);
	if (!text || numbers[0] > 1 << 20 || numbers[1] > numbers[0])
		return NULL;
	level->entries = (uint32_t)numbers[0];
	level->ways = (uint32_t)numbers[1];
	return tlb_geometry_valid(*level) ? text : NULL;
}

const char *parse_page_size(const char *text, uint32_t *shift)
{
	uint64_t bytes;

	text = parse_numbers(text, 1, &bytes);
	if (!text || bytes < 4096 || (bytes & (bytes - 1)))
		return NULL;
	for (*shift = 0; UINT64_C(1) << *shift < bytes; ++*shift)
		;
	return text;
}

/* Fields of --core: times are in cycles, except the intervals, which are in ticks. */
static const struct core_field {
	const char *name;
	size_t offset;
	uint64_t least, most;
	uint32_t values;		/* at most, with colons between them */
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
	FIELD("walks-first", walks_first, 0, 1),
	FIELD("l3-bytes", l3_bytes, 0, ~0u),
	{ "l3-half-life-cycles",
	  offsetof(struct timing_config, l3_half_life_cycles), 0, ~0u,
	  MOST_HALF_LIVES },
	FIELD("l3-adaptive", l3_adaptive, 0, 100),
	FIELD("l3-lifetime", l3_lifetime, 0, 1000),
	FIELD("l3-cycles", l3_cycles, 1, 10000),
	FIELD("l3-interval", l3_interval, 1, 100000),
	FIELD("memory-cycles", memory_cycles, 1, 10000),
	FIELD("memory-interval", memory_interval, 1, 100000),
	FIELD("memory-apart", memory_apart, 1, 100000),
	FIELD("stlb-cycles", stlb_cycles, 0, 1000),
	FIELD("walk-latency", walk_latency, 0, 1000),
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
static const struct core_field *field_of(const char *text)
{
	for (uint32_t i = 0; i < FIELDS; i++) {
		const char *after = text_after(text, core_fields[i].name);

		if (after && *after == '=')
			return &core_fields[i];
	}
	return NULL;
}

/* Read a field's value; returns its end, or NULL if it is wrong. */
static const char *parse_field(const struct core_field *field, const char *text,
				struct timing_config *core)
{
	uint32_t *member = (uint32_t *)((char *)core + field->offset);

	for (uint32_t i = 0; i < field->values; i++) {
		uint64_t value;

		text = parse_number(text, &value);
		if (!text || value < field->least || value > field->most)
			return NULL;
		member[i] = (uint32_t)value;
		if (*text != ':')
			break;
		text++;
	}
	return *text && *text != ',' ? NULL : text;
}

bool parse_core(const char *text, struct timing_config *core)
{
	while (*text) {
		const struct core_field *field = field_of(text);

		if (!field)
			return false;
		text = parse_field(field, text + text_length(field->name) + 1, core);
		if (!text)
			return false;
		if (*text)
			text++;
	}
	return cache_valid(core->l1.bytes, core->l1.ways) &&
	       cache_valid(core->l2.bytes, core->l2.ways);
}

const char *parse_core_field(uint32_t number)
{
	return number < FIELDS ? core_fields[number].name : NULL;
}
