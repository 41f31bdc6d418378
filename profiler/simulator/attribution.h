/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Page walks by memory and code: the misses of the process by the memory that they
 * are in, by the code that makes them, and over time.
 */
#ifndef TLBSIM_ATTRIBUTION_H
#define TLBSIM_ATTRIBUTION_H

#include "extents.h"
#include "names.h"
#include "phases.h"
#include "tlbsim.h"

#include "pub_tool_execontext.h"

enum place_kind {
	PLACE_UNKNOWN, PLACE_HEAP, PLACE_STACK, PLACE_ANONYMOUS, PLACE_SEGMENT,
	PLACE_FILE, PLACE_MEMFD, PLACE_SHARED, PLACE_SYSV, PLACE_HUGETLBFS, PLACE_JIT,
};

struct misses {
	ULong hits, walks;	/* of the second level; that needed a walk */
};

enum { MISSES_DATA, MISSES_FETCH, MISSES_SIDES };

/* Memory of one kind, name and origin. */
struct place {
	enum place_kind kind;
	Bool code;			/* may be executed */
	UInt name, variable;		/* in place_names */
	ULong device;			/* of a file's file system */
	ExeContext *site;		/* of the call that mapped it, or NULL */
	ULong bytes, most_bytes;	/* mapped: now, and at most at a time */
	ULong pages, most_pages;	/* of them touched */
	ULong regions, most_regions;	/* huge-page-sized, with a touched page */
	struct misses counted[TLB_SIZES][MISSES_SIDES];
	/* In windows: what was modelled, and ticks that the core waited. */
	struct misses modelled[TLB_SIZES];
	ULong paid[TLB_SIZES];
};

/* Flags of extents. */
enum { EXTENT_HEAP = 1, EXTENT_SHARED = 2, EXTENT_HUGETLB = 4, EXTENT_STACK = 8 };

extern struct extents place_extents;
extern struct names place_names;
extern const HChar *place_executable;	/* its path: what a script's interpreter is; or NULL */
extern struct place *places;	/* the first one: what is not known */
extern UInt place_count;

/* places.c: nothing has missed yet; what is mapped stays. */
void places_start(void);
/* The place of an address; it is known from then on. */
struct place *places_find(ULong address);
/* A page of the place was walked to. */
void places_walked(ULong address);
/* What was mapped there is no longer, or is something else. */
void places_forget(ULong start, ULong end);

/* places_resolve.c: once, before all others. */
void places_init(void);
/* The number of an address's place, and the addresses around it that belong to it as well; 0: nothing is there. */
UInt places_resolve(ULong address, ULong *start, ULong *end);

/* code.c: the same for the instruction that misses, and the calls that led there. */
void code_start(void);
void code_missed(ULong instruction, enum tlb_size size, enum tlb_side side, Bool walk);

/*
 * attribution_tables.c: write all tables, beside the counts.  One that cannot
 * be written is complained about in Valgrind's log.
 */
void attribution_write(const HChar *state);
/* A new table with the header that all have; NULL: it cannot be made. */
VgFile *table_open(const HChar *kind, const HChar *state);
void table_close(VgFile *file, UInt rows);
/* Two cells. */
void table_misses(VgFile *file, const struct misses *misses);

/* code_tables.c: the part that is of code.  Started before a stack's number is asked for. */
void code_tables_start(void);
void code_tables_write(const HChar *state);
/* The number by which a stack's frames are told; NULL has none. */
UInt stack_number(ExeContext *stack);

/* attribution.c: called by main.c, if tlbsim.attribute. */
void attribution_start(void);
void attribution_missed(enum tlb_size size, uint64_t address,
			enum tlb_side side, bool walk);
/* May the call change what is mapped?  Before, and after it succeeded. */
Bool attribution_maps(UInt number);
void attribution_before(UInt number, const UWord *args);
void attribution_after(ThreadId tid, UInt number, const UWord *args, UWord result);
/* In a window: a miss that is modelled, and ticks for which the core waited. */
void attribution_modelled(enum tlb_size size, uint64_t address, bool walk);
void attribution_paid(bool huge, uint64_t address, ticks time);

extern struct phases attribution_phases;

#endif
