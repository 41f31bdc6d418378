/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which part of the program is looked at?  Code outside of a region is not instrumented, so that
 * nothing of it is counted, and no time passes.  Where a region begins or ends, all code is
 * translated again.
 */
#ifndef TLBSIM_REGION_H
#define TLBSIM_REGION_H

#include "pub_tool_tooliface.h"

/* A place "OFFSET:FILE" where it begins, or ends.  False: it is none, or there are too many. */
Bool region_add_start(const HChar *text);
Bool region_add_end(const HChar *text);

/* The program is at its beginning. */
void region_reset(void);

/* Whether code is to be instrumented: there is no region, or the program is in it. */
Bool region_inside(void);

/* The block that the program executes instead, since the region begins or ends in it; or NULL. */
IRSB *region_turn(const IRSB *in);

#endif
