/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "region.h"

#include "engine/parse.h"

#include "libvex.h"
#include "pub_tool_aspacemgr.h"
#include "pub_tool_libcbase.h"
#include "pub_tool_machine.h"

#if defined(VGA_amd64)
#include "libvex_guest_amd64.h"
typedef VexGuestAMD64State guest_state;
#elif defined(VGA_arm64)
#include "libvex_guest_arm64.h"
typedef VexGuestARM64State guest_state;
#else
/* Regions are timed natively as well, which is possible on x86-64 alone. */
typedef struct { ULong guest_CMSTART, guest_CMLEN; } guest_state;
#endif

#define MOST_PLACES 64
#define IN_PAGE 0xfffu

struct places {
	struct { ULong offset; const HChar *file; } at[MOST_PLACES];
	UInt count;
};

static struct places starts, ends;
static Bool inside;

/* VEX's own copy of the options it was started with: the length of blocks can change. */
extern VexControl vex_control;
#define USUAL_INSTRUCTIONS 60

static Bool add_place(struct places *places, const HChar *text)
{
	uint64_t offset;

	text = parse_numbers(text, 1, &offset);
	if (!text || *text != ':' || !text[1] || places->count == MOST_PLACES)
		return False;
	places->at[places->count].offset = offset;
	places->at[places->count++].file = text + 1;
	return True;
}

Bool region_add_start(const HChar *text)
{
	return add_place(&starts, text);
}

Bool region_add_end(const HChar *text)
{
	return add_place(&ends, text);
}

void region_reset(void)
{
	inside = starts.count == 0;
}

Bool region_inside(void)
{
	return inside;
}

/* Whether the region begins at this address, or ends if the program is in it. */
static Bool is_turn(Addr address)
{
	const struct places *places = inside ? &ends : &starts;

	for (UInt i = 0; i < places->count; i++) {
		const NSegment *segment;
		const HChar *file;

		if ((address ^ places->at[i].offset) & IN_PAGE)
			continue;
		segment = VG_(am_find_nsegment)(address);
		file = segment ? VG_(am_get_filename)(segment) : NULL;
		if (file && VG_(strcmp)(file, places->at[i].file) == 0 &&
		    (ULong)segment->offset + (address - segment->start) == places->at[i].offset)
			return True;
	}
	return False;
}

static void tlbsim_region_turn(void)
{
	inside = !inside;
}

static void put(IRSB *out, SizeT offset, ULong value)
{
	addStmtToIRSB(out, IRStmt_Put((Int)offset, IRExpr_Const(IRConst_U64(value))));
}

/*
 * A block that only has the translations of code from `start` on dropped, as the instruction for
 * code that was changed does, and that continues at `next`: nothing of it has been executed yet.
 */
static IRSB *again(const IRSB *in, Addr next, ULong start, ULong bytes, Bool turn)
{
	IRSB *out = deepCopyIRSBExceptStmts(in);

	addStmtToIRSB(out, IRStmt_IMark(next, 1, 0));
	if (turn)
		addStmtToIRSB(out, IRStmt_Dirty(unsafeIRDirty_0_N(
					   0, "tlbsim_region_turn",
					   VG_(fnptr_to_fnentry)(tlbsim_region_turn),
					   mkIRExprVec_0())));
	put(out, offsetof(guest_state, guest_CMSTART), start);
	put(out, offsetof(guest_state, guest_CMLEN), bytes);
	out->next = IRExpr_Const(IRConst_U64(next));
	out->jumpkind = Ijk_InvalICache;
	return out;
}

IRSB *region_turn(const IRSB *in)
{
	const ULong page = IN_PAGE + 1;
	Addr first = 0;

	vex_control.guest_max_insns = USUAL_INSTRUCTIONS;
	for (Int i = 0; i < in->stmts_used; i++) {
		const IRStmt *st = in->stmts[i];

		if (!st || st->tag != Ist_IMark)
			continue;
		if (!first)
			first = st->Ist.IMark.addr;
		if (!is_turn(st->Ist.IMark.addr))
			continue;
		if (st->Ist.IMark.addr == first)
			return again(in, first, page, ~(ULong)IN_PAGE, True);
		/* Blocks may end only where registers are complete: get there by short ones. */
		vex_control.guest_max_insns = 1;
		return again(in, first, first, 1, False);
	}
	return NULL;
}
