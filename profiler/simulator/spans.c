/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "spans.h"

#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"

#define KNOWN_SPANS 64u
static struct {
	ULong name;	/* of the page: first address, with the shift; 0: empty */
	Bool backed;
} spans[KNOWN_SPANS];

bool spanned(uint64_t address, uint32_t shift)
{
	const ULong start = address >> shift << shift, name = start | shift;
	const UInt slot = (UInt)(address >> shift) % KNOWN_SPANS;
	const NSegment *segment;

	if (spans[slot].name == name)
		return spans[slot].backed;
	segment = VG_(am_find_nsegment)((Addr)address);
	spans[slot].name = name;
	spans[slot].backed = segment && segment->kind == SkAnonC &&
			     segment->start <= start &&
			     segment->end - start >= (1ULL << shift) - 1;
	return spans[slot].backed;
}

void spans_forget(void)
{
	VG_(memset)(spans, 0, sizeof(spans));
}
