/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What does --view say about a further machine? */
#ifndef TLBCOST_ENGINE_VIEW_OPTIONS_H
#define TLBCOST_ENGINE_VIEW_OPTIONS_H

#include "tlb/views.h"


/* The machine, after this number of others; false: the text is wrong. */
bool view_option(const char *text, uint32_t views, struct tlb_view_config *view);

#endif
