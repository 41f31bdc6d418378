/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "current.h"

#include "pub_tool_threadstate.h"

struct current current = { .thread = VG_INVALID_THREADID };
struct tlb_filter tlbsim_data_filter, tlbsim_code_filter;
ULong tlbsim_clock = 1;	/* time 0 is that of empty entries */
struct touched tlbsim_touched;
