/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which memory is an address in, by what Valgrind knows of the address space? */
#include "attribution.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_debuginfo.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"
#include "pub_tool_mallocfree.h"

struct extents place_extents;
struct names place_names;
const HChar *place_executable;
struct place *places;
UInt place_count;

/* Numbers of places fit beside a flag in 16 bits; what is beyond shares number 1. */
#define MOST_PLACES 0x7fffu
#define SLOTS (2 * (MOST_PLACES + 1))

static UShort *slots;		/* hash table of numbers; 0: empty */

static Bool same(const struct place *a, const struct place *b)
{
	return a->kind == b->kind && a->code == b->code && a->name == b->name &&
	       a->variable == b->variable && a->site == b->site &&
	       a->device == b->device;
}

void places_init(void)
{
	places = VG_(calloc)("tlbsim.places", MOST_PLACES, sizeof(*places));
	slots = VG_(calloc)("tlbsim.places", SLOTS, sizeof(*slots));
	for (; place_count < 2; place_count++)
		places[place_count] = (struct place){
			.name = NO_NAME, .variable = NO_NAME,
		};
}

static UInt number_of(const struct place *wanted)
{
	ULong hash = (((ULong)wanted->name << 32 | wanted->variable) +
		      (Addr)wanted->site + wanted->kind * 2 + wanted->code) *
		     0x9e3779b97f4a7c15ULL;
	UInt i;

	for (i = (UInt)(hash >> 40) % SLOTS; slots[i]; i = (i + 1) % SLOTS)
		if (same(&places[slots[i]], wanted))
			return slots[i];
	if (place_count == MOST_PLACES)
		return 1;
	slots[i] = (UShort)place_count;
	places[place_count] = *wanted;
	return place_count++;
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

/* A file by its name; what has none that can be opened, by the kernel's for it. */
static enum place_kind kind_of_file(const HChar *name)
{
	if (begins(name, "/memfd:"))
		return PLACE_MEMFD;
	if (begins(name, "/SYSV"))
		return PLACE_SYSV;
	if (begins(name, "/dev/zero"))
		return PLACE_SHARED;
	if (begins(name, "/anon_hugepage"))
		return PLACE_HUGETLBFS;
	if (place_executable && !VG_(strcmp)(name, place_executable))
		return PLACE_SEGMENT;
	return PLACE_FILE;
}

static enum place_kind kind_of_anonymous(const NSegment *segment,
					 const struct extent *extent)
{
	UInt flags = extent ? extent->flags : 0;
	ULong start = segment->start, end = segment->end + 1;

	if (flags & EXTENT_HEAP)
		return PLACE_HEAP;
	if (extent) {
		start = extent->start > start ? extent->start : start;
		end = extent->end < end ? extent->end : end;
	}
	if (flags & EXTENT_STACK || is_stack(start, end))
		return PLACE_STACK;
	if (flags & EXTENT_HUGETLB)
		return PLACE_HUGETLBFS;
	if (flags & EXTENT_SHARED)
		return PLACE_SHARED;
	return segment->hasX ? PLACE_JIT : PLACE_ANONYMOUS;
}

/* Zeroed data behind a file's: the executable's, or a library's. */
static Bool name_bss(struct place *place, ULong address)
{
	const HChar *object;
	VgSectKind section = VG_(DebugInfo_sect_kind)(&object, address);

	if (section != Vg_SectBSS && section != Vg_SectData)
		return False;
	place->kind = kind_of_file(object);
	place->name = names_number(&place_names, place->kind == PLACE_SEGMENT ?
							 "[bss]" : object);
	return True;
}

/* The variable that the address is in; only executables and libraries have any. */
static void name_variable(struct place *place, ULong address)
{
	const HChar *variable;
	PtrdiffT offset;

	if (VG_(get_datasym_and_offset)(VG_(current_DiEpoch)(), address,
					&variable, &offset))
		place->variable = names_number(&place_names, variable);
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

static void describe(struct place *place, const NSegment *segment,
		     const struct extent *extent, ULong address)
{
	const HChar *name = VG_(am_get_filename)(segment);

	if (segment->kind == SkShmC) {
		place->kind = PLACE_SYSV;
	} else if (segment->kind == SkFileC) {
		place->kind = name ? kind_of_file(name) : PLACE_FILE;
		place->name = names_number(&place_names, name);
		place->device = segment->dev;
		place->code = segment->hasX;
		if (!place->code)
			name_variable(place, address);
	} else {
		/* Valgrind's own choice for the heap is to allow execution. */
		place->kind = kind_of_anonymous(segment, extent);
		place->code = place->kind == PLACE_JIT;
		if (place->kind == PLACE_ANONYMOUS && !(extent && extent->site) &&
		    name_bss(place, address))
			name_variable(place, address);
	}
	if (place->kind != PLACE_SEGMENT && extent)
		place->site = extent->site;
}

UInt places_resolve(ULong address, ULong *start, ULong *end)
{
	const ULong page = 1ULL << tlbsim.config.page_shift[TLB_BASE];
	const NSegment *segment = VG_(am_find_nsegment)(address);
	struct extent *extent = extents_find(&place_extents, address);
	struct place place = { .name = NO_NAME, .variable = NO_NAME };
	UInt number;

	if (!segment)
		return 0;
	if (grows(segment))
		place.kind = PLACE_STACK;
	else if (segment->kind & (SkAnonC | SkFileC | SkShmC))
		describe(&place, segment, extent, address);
	else
		return 0;
	number = number_of(&place);
	if (place.kind == PLACE_SEGMENT || place.variable != NO_NAME) {
		*start = address & ~(page - 1);
		*end = *start + page;
	} else {
		*start = segment->start;
		*end = segment->end + 1;
	}
	if (!extent) {
		/* What lies before and behind may be another's. */
		*start = address & ~(page - 1);
		*end = *start + page;
		return number;
	}
	*start = extent->start > *start ? extent->start : *start;
	*end = extent->end < *end ? extent->end : *end;
	if (!extent->place) {
		extent->place = number;
		places[number].bytes += extent->end - extent->start;
		if (places[number].bytes > places[number].most_bytes)
			places[number].most_bytes = places[number].bytes;
	}
	return number;
}
