/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "mappings_resolve.h"
#include "options.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"

struct extents mapping_extents;
struct names mapping_names;
struct mapping *mappings;
UInt mapping_count;
const HChar *mapping_executable;

/* Numbers of mappings fit in 16 bits with a flag; what is beyond shares number 1. */
#define MOST_MAPPINGS 0x7fffu
#define SLOTS (2 * (MOST_MAPPINGS + 1))

static UShort *slots;		/* hash table of numbers; 0: empty */

static Bool same(const struct mapping *a, const struct mapping *b)
{
	return a->kind == b->kind && a->code == b->code && a->name == b->name &&
	       a->variable == b->variable && a->site == b->site &&
	       a->device == b->device;
}

void mappings_init(void)
{
	mappings = VG_(calloc)("tlbsim.mappings", MOST_MAPPINGS, sizeof(*mappings));
	slots = VG_(calloc)("tlbsim.mappings", SLOTS, sizeof(*slots));
	for (; mapping_count < 2; mapping_count++)
		mappings[mapping_count] = (struct mapping){
			.name = NO_NAME, .variable = NO_NAME,
		};
}

static UInt number_of(const struct mapping *wanted)
{
	ULong hash = (((ULong)wanted->name << 32 | wanted->variable) +
		      (Addr)wanted->site + wanted->kind * 2 + wanted->code) *
		     0x9e3779b97f4a7c15ULL;
	UInt i;

	for (i = (UInt)(hash >> 40) % SLOTS; slots[i]; i = (i + 1) % SLOTS)
		if (same(&mappings[slots[i]], wanted))
			return slots[i];
	if (mapping_count == MOST_MAPPINGS)
		return 1;
	slots[i] = (UShort)mapping_count;
	mappings[mapping_count] = *wanted;
	return mapping_count++;
}

static Bool is_stack(ULong start, ULong end)
{
	ThreadId tid;
	Addr lowest, highest;

	VG_(thread_stack_reset_iter)(&tid);
	while (VG_(thread_stack_next)(&tid, &lowest, &highest))
		if (highest >= start && highest < end)
			return True;
	return False;
}

static Bool begins(const HChar *text, const HChar *with)
{
	return VG_(strncmp)(text, with, VG_(strlen)(with)) == 0;
}

/* A file by its name; one that cannot be opened by name, by the kernel's name for it. */
static enum mapping_kind kind_of_file(const HChar *name)
{
	if (begins(name, "/memfd:"))
		return MAPPING_MEMFD;
	if (begins(name, "/SYSV"))
		return MAPPING_SYSV;
	if (begins(name, "/dev/zero"))
		return MAPPING_SHARED;
	if (begins(name, "/anon_hugepage"))
		return MAPPING_HUGETLBFS;
	if (mapping_executable && !VG_(strcmp)(name, mapping_executable))
		return MAPPING_SEGMENT;
	return MAPPING_FILE;
}

static enum mapping_kind kind_of_anonymous(const NSegment *segment,
					 const struct extent *extent)
{
	UInt flags = extent ? extent->flags : 0;
	ULong start = segment->start, end = segment->end + 1;

	if (flags & EXTENT_HEAP)
		return MAPPING_HEAP;
	if (extent) {
		start = extent->start > start ? extent->start : start;
		end = extent->end < end ? extent->end : end;
	}
	if (flags & EXTENT_STACK || is_stack(start, end))
		return MAPPING_STACK;
	if (flags & EXTENT_HUGETLB)
		return MAPPING_HUGETLBFS;
	if (flags & EXTENT_SHARED)
		return MAPPING_SHARED;
	return segment->hasX ? MAPPING_JIT : MAPPING_ANONYMOUS;
}

/* Zeroed data behind a file's: the executable's, or a library's. */
static Bool name_bss(struct mapping *mapping, ULong address)
{
	const HChar *object;
	VgSectKind section = VG_(DebugInfo_sect_kind)(&object, address);

	if (section != Vg_SectBSS && section != Vg_SectData)
		return False;
	mapping->kind = kind_of_file(object);
	mapping->name = names_number(&mapping_names, mapping->kind == MAPPING_SEGMENT ?
							 "[bss]" : object);
	return True;
}

/* The variable that the address is in; only executables and libraries have any. */
static void name_variable(struct mapping *mapping, ULong address)
{
	const HChar *variable;
	PtrdiffT offset;

	if (VG_(get_datasym_and_offset)(VG_(current_DiEpoch)(), address,
					&variable, &offset))
		mapping->variable = names_number(&mapping_names, variable);
}

/* The main thread's stack is about to grow. */
static Bool grows(const NSegment *segment)
{
	const NSegment *above;

	if (segment->kind != SkResvn || segment->smode != SmUpper)
		return False;
	above = VG_(am_find_nsegment)(segment->end + 1);
	return above && above->kind == SkAnonC &&
	       is_stack(above->start, above->end + 1);
}

static void describe(struct mapping *mapping, const NSegment *segment,
		     const struct extent *extent, ULong address)
{
	const HChar *name = VG_(am_get_filename)(segment);

	if (segment->kind == SkShmC) {
		mapping->kind = MAPPING_SYSV;
	} else if (segment->kind == SkFileC) {
		mapping->kind = name ? kind_of_file(name) : MAPPING_FILE;
		mapping->name = names_number(&mapping_names, name);
		mapping->device = segment->dev;
		mapping->code = segment->hasX;
		if (!mapping->code)
			name_variable(mapping, address);
	} else {
		/* Valgrind itself makes the heap executable. */
		mapping->kind = kind_of_anonymous(segment, extent);
		mapping->code = mapping->kind == MAPPING_JIT;
		if (mapping->kind == MAPPING_ANONYMOUS && !(extent && extent->site) &&
		    name_bss(mapping, address))
			name_variable(mapping, address);
	}
	if (mapping->kind != MAPPING_SEGMENT && extent)
		mapping->site = extent->site;
}

UInt mappings_resolve(ULong address, ULong *start, ULong *end)
{
	const ULong page = 1ULL << options.tlb.page_shift[TLB_BASE];
	const NSegment *segment = VG_(am_find_nsegment)(address);
	struct extent *extent = extents_find(&mapping_extents, address);
	struct mapping mapping = { .name = NO_NAME, .variable = NO_NAME };
	UInt number;

	if (!segment)
		return 0;
	if (grows(segment))
		mapping.kind = MAPPING_STACK;
	else if (segment->kind & (SkAnonC | SkFileC | SkShmC))
		describe(&mapping, segment, extent, address);
	else
		return 0;
	number = number_of(&mapping);
	if (mapping.kind == MAPPING_SEGMENT || mapping.variable != NO_NAME) {
		*start = address & ~(page - 1);
		*end = *start + page;
	} else {
		*start = segment->start;
		*end = segment->end + 1;
	}
	if (!extent) {
		/* Memory before and after may belong to another mapping. */
		*start = address & ~(page - 1);
		*end = *start + page;
		return number;
	}
	*start = extent->start > *start ? extent->start : *start;
	*end = extent->end < *end ? extent->end : *end;
	if (!extent->mapping) {
		extent->mapping = number;
		mappings[number].bytes += extent->end - extent->start;
		if (mappings[number].bytes > mappings[number].most_bytes)
			mappings[number].most_bytes = mappings[number].bytes;
	}
	return number;
}
