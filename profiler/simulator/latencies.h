/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How many cycles does an operation take?  Those of recent server cores, from the
 * manufacturers' optimisation manuals; none matters as much as a miss.
 */
#ifndef TLBSIM_LATENCIES_H
#define TLBSIM_LATENCIES_H

#include "pub_tool_basics.h"
#include "libvex_ir.h"

/* Only another name for the same bits: no instruction of its own. */
#define LATENCY_NONE 254u
/* Integer arithmetic: one cycle for everything that an instruction does. */
#define LATENCY_INTEGER 255u
/* An emulated instruction. */
#define LATENCY_CALL 20u

UInt latency_of(IROp op);

#endif
