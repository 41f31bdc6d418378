/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What does --view say about a further machine? */
#ifndef TLBSIM_VIEW_OPTIONS_H
#define TLBSIM_VIEW_OPTIONS_H

#include "tlb/views.h"

#include "pub_tool_basics.h"

/* The machine, after this number of others; False: the text is wrong. */
Bool view_option(const HChar *text, UInt views, struct tlb_view_config *view);

#endif
