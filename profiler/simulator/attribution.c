/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "attribution.h"
#include "code.h"
#include "current.h"
#include "mappings.h"
#include "options.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_vki.h"
#include "pub_tool_vkiscnums.h"

#define MAP_GROWSDOWN_FLAG 0x100u
#define MAP_STACK_FLAG 0x20000u
#define MAP_HUGETLB_FLAG 0x40000u
#define DONTNEED 4u
#define REMOVE 9u

struct phases attribution_phases;

static ULong heap_end;		/* 0: not known yet */
/* Memory that could hold nothing before is about to be made writable. */
static Bool commits;

static ULong up(ULong address)
{
	const ULong page = 1ULL << options.tlb.page_shift[TLB_BASE];

	return (address + page - 1) & ~(page - 1);
}

static void *allocate(size_t bytes)
{
	return VG_(malloc)("tlbsim.extents", bytes);
}

static void removed(uint32_t mapping, uint64_t bytes)
{
	mappings[mapping].bytes -= bytes;
}

/* What the kernel and Valgrind mapped before the program's first instruction. */
static void note_initial(void)
{
	Addr starts[256];
	Int count = VG_(am_get_segment_starts)(SkAnonC | SkFileC | SkShmC, starts,
					       sizeof(starts) / sizeof(starts[0]));

	for (Int i = 0; i < count; i++) {
		const NSegment *segment = VG_(am_find_nsegment)(starts[i]);
		const HChar *name = VG_(am_get_filename)(segment);

		/* Valgrind maps the loader far above the executable. */
		if (!mapping_executable && segment->kind == SkFileC && name)
			mapping_executable = VG_(strdup)("tlbsim.path", name);
		extents_add(&mapping_extents, (struct extent){
			.start = segment->start,
			.end = segment->end + 1,
		});
	}
}

void attribution_start(void)
{
	if (!mapping_extents.allocate) {
		mapping_extents.allocate = allocate;
		mapping_extents.release = VG_(free);
		mapping_extents.removed = removed;
		mappings_init();
		note_initial();
	}
	mappings_start();
	code_start();
	phases_start(&attribution_phases, tlbsim_clock);
}

void attribution_missed(enum tlb_size size, uint64_t address,
			enum tlb_side side, bool walk)
{
	struct mapping *mapping = mappings_find(address);
	struct misses *misses = &mapping->counted[size][misses_side(side)];

	if (walk)
		misses->walks++;
	else
		misses->hits++;
	if (walk && size == TLB_BASE)
		mappings_walked(address);
	phases_note(&attribution_phases, current.model->when, size, walk);
	code_missed(current.model->where, size, side, walk);
}

void attribution_modelled(enum tlb_size size, uint64_t address, bool walk)
{
	misses_add(&mappings_find(address)->modelled[size], walk);
}

void attribution_waited(bool huge, uint64_t address, uint64_t time)
{
	mappings_find(address)->waited[huge ? TLB_HUGE : TLB_BASE] += time;
}

static void unmapped(ULong start, ULong bytes)
{
	mappings_forget(start, up(start + bytes));
	extents_remove(&mapping_extents, start, up(start + bytes));
}

static void mapped(ThreadId tid, ULong start, ULong bytes, UInt flags, UWord ours)
{
	unmapped(start, bytes);
	extents_add(&mapping_extents, (struct extent){
		.start = start,
		.end = up(start + bytes),
		.flags = flags,
		.site = ours ? VG_(record_ExeContext)(tid, 0) : NULL,
	});
}

static void heap_moved(ThreadId tid, ULong end)
{
	if (heap_end && up(end) > up(heap_end))
		mapped(tid, up(heap_end), up(end) - up(heap_end), EXTENT_HEAP, True);
	else if (heap_end && up(end) < up(heap_end))
		unmapped(up(end), up(heap_end) - up(end));
	heap_end = end;
}

static void moved(ThreadId tid, const UWord *args, ULong to)
{
	ULong from = args[0], before = args[1], now = args[2];
	const struct extent *old = extents_find(&mapping_extents, from);
	UInt flags = old ? old->flags : 0;
	Bool ours = old && old->site;

	if (to != from) {
		/* Zero bytes: the same pages again. */
		if (before)
			unmapped(from, before);
		mapped(tid, to, now, flags, ours);
	} else if (now > before) {
		mapped(tid, from + up(before), up(now) - up(before), flags, ours);
	} else if (now < before) {
		unmapped(from + up(now), up(before) - up(now));
	}
}

static UInt flags_of_map(ULong flags)
{
	return (flags & VKI_MAP_SHARED ? EXTENT_SHARED : 0) |
	       (flags & MAP_HUGETLB_FLAG ? EXTENT_HUGETLB : 0) |
	       (flags & (MAP_STACK_FLAG | MAP_GROWSDOWN_FLAG) ? EXTENT_STACK : 0);
}

Bool attribution_maps(UInt number)
{
	switch (number) {
	case __NR_mmap:
	case __NR_munmap:
	case __NR_mremap:
	case __NR_brk:
	case __NR_mprotect:
	case __NR_madvise:
	case __NR_shmat:
	case __NR_shmdt: return True;
	default: return False;
	}
}

void attribution_before(UInt number, const UWord *args)
{
	const NSegment *segment;

	switch (number) {
	case __NR_mprotect:
		segment = VG_(am_find_nsegment)(args[0]);
		commits = segment && segment->kind == SkAnonC && !segment->hasR &&
			  !segment->hasW && args[2] & VKI_PROT_WRITE;
		break;
	case __NR_shmdt:
		segment = VG_(am_find_nsegment)(args[0]);
		if (segment && segment->kind == SkShmC)
			unmapped(segment->start, segment->end + 1 - segment->start);
		break;
	default: break;
	}
}

void attribution_after(ThreadId tid, UInt number, const UWord *args, UWord result)
{
	const struct extent *extent;
	const NSegment *segment;
	UInt flags;

	switch (number) {
	case __NR_mmap:
		/* The site that mapped the pages of private files does not matter. */
		mapped(tid, result, args[1], flags_of_map(args[3]),
		       args[3] & (VKI_MAP_ANONYMOUS | VKI_MAP_SHARED));
		break;
	case __NR_munmap: unmapped(args[0], args[1]); break;
	case __NR_mremap: moved(tid, args, result); break;
	case __NR_brk: heap_moved(tid, result); break;
	case __NR_mprotect:
		extent = extents_find(&mapping_extents, args[0]);
		if (commits && extent && extent->site) {
			flags = extent->flags;
			mapped(tid, args[0], args[1], flags, True);
		} else {
			mappings_forget(args[0], args[0] + args[1]);
		}
		break;
	case __NR_madvise:
		if (args[2] == DONTNEED || args[2] == REMOVE)
			mappings_forget(args[0], args[0] + args[1]);
		break;
	case __NR_shmat:
		segment = VG_(am_find_nsegment)(result);
		if (segment)
			mapped(tid, result, segment->end + 1 - result,
			       EXTENT_SHARED, True);
		break;
	default: break;
	}
}
