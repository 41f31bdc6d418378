/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Marks a place in a program, where a region may begin or end:
 *
 *	#include <tlbcost-marker.h>
 *	...
 *	TLBCOST_MARK("lookups");
 *
 * tlbcost estimate --region @lookups:@done -- ./program
 *
 * It is one nop and a note outside of what is loaded, which strip leaves.  The note has the form of
 * SystemTap's static probes (provider "tlbcost"): readelf -n shows it, and tlbcost finds the probes
 * that a program has already.
 */
#ifndef TLBCOST_MARKER_H
#define TLBCOST_MARKER_H

/* `name`: a string literal.  Memory accesses stay on their side of the mark. */
#define TLBCOST_MARK(name) \
	__asm__ __volatile__("990:	nop\n" \
			     "	.pushsection .note.stapsdt,\"?\",\"note\"\n" \
			     "	.balign 4\n" \
			     "	.4byte 992f-991f, 994f-993f, 3\n" \
			     "991:	.asciz \"stapsdt\"\n" \
			     "992:	.balign 4\n" \
			     "993:	.8byte 990b, 0, 0\n" \
			     "	.asciz \"tlbcost\"\n" \
			     "	.asciz \"" name "\"\n" \
			     "	.asciz \"\"\n" \
			     "994:	.balign 4\n" \
			     "	.popsection\n" ::: "memory")

#endif
