/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which memory is an address in, by what Valgrind knows of the address space? */
#ifndef TLBSIM_MAPPINGS_RESOLVE_H
#define TLBSIM_MAPPINGS_RESOLVE_H

#include "misses.h"
#include "names.h"

#include "tlb/extents.h"

#include "pub_tool_execontext.h"

enum mapping_kind {
	MAPPING_UNKNOWN, MAPPING_HEAP, MAPPING_STACK, MAPPING_ANONYMOUS, MAPPING_SEGMENT,
	MAPPING_FILE, MAPPING_MEMFD, MAPPING_SHARED, MAPPING_SYSV, MAPPING_HUGETLBFS, MAPPING_JIT,
};

/* Memory of one kind, name and origin. */
struct mapping {
	enum mapping_kind kind;
	Bool code;			/* may be executed */
	UInt name, variable;		/* in mapping_names */
	ULong device;			/* of a file's file system */
	ExeContext *site;		/* of the call that mapped it, or NULL */
	ULong bytes, most_bytes;	/* mapped: now, and the maximum */
	ULong pages, most_pages;	/* of them touched */
	ULong regions, most_regions;	/* huge-page-sized, with a touched page */
	struct misses counted[TLB_SIZES][MISSES_SIDES];
	/* In windows: what was modelled, and ticks that the core waited for it. */
	struct misses modelled[TLB_SIZES];
	ULong waited[TLB_SIZES];
};

/* Flags of extents. */
enum { EXTENT_HEAP = 1, EXTENT_SHARED = 2, EXTENT_HUGETLB = 4, EXTENT_STACK = 8 };

extern struct extents mapping_extents;
extern struct names mapping_names;
extern struct mapping *mappings;	/* the first one: unknown memory */
extern UInt mapping_count;
extern const HChar *mapping_executable;	/* its path: a script's interpreter; NULL: not known */

/* Once, before all others. */
void mappings_init(void);

/*
 * The number of an address's mapping, and the addresses around it that also belong to it; 0:
 * nothing is there.
 */
UInt mappings_resolve(ULong address, ULong *start, ULong *end);

#endif
