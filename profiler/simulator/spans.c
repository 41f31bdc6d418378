/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "spans.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"

#define KNOWN_SPANS 64u
static struct {
	Addr start, last;	/* of the mapping; last 0: empty */
	UInt shift;
	Bool backed;
} spans[KNOWN_SPANS];

/* Mappings are looked up again at least this often. */
#define SLOT_SHIFT 21u

bool spanned(uint64_t address, uint32_t shift)
{
	const UInt slot = (UInt)(address >> SLOT_SHIFT) % KNOWN_SPANS;
	const NSegment *segment;

	if (spans[slot].shift == shift && spans[slot].start <= address &&
	    address <= spans[slot].last)
		return spans[slot].backed;
	segment = VG_(am_find_nsegment)((Addr)address);
	if (!segment)
		return False;
	spans[slot].start = segment->start;
	spans[slot].last = segment->end;
	spans[slot].shift = shift;
	spans[slot].backed = segment->kind == SkAnonC &&
			     segment->end - segment->start >= (1ULL << shift) - 1;
	return spans[slot].backed;
}

void spans_forget(void)
{
	VG_(memset)(spans, 0, sizeof(spans));
}
