/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is added to the program's code, statement by statement? */
#ifndef TLBSIM_INSTRUMENT_H
#define TLBSIM_INSTRUMENT_H

#include "pub_tool_basics.h"
#include "pub_tool_tooliface.h"

/* For VG_(basic_tool_funcs): the block with our code in it. */
IRSB *tlbsim_instrument(VgCallbackClosure *closure, IRSB *in,
			const VexGuestLayout *layout,
			const VexGuestExtents *extents,
			const VexArchInfo *archinfo_host, IRType guest_word,
			IRType host_word);

#endif
