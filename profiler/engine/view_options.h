/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What does --view say about a further machine? */
#ifndef TLBCOST_ENGINE_VIEW_OPTIONS_H
#define TLBCOST_ENGINE_VIEW_OPTIONS_H

#include "tlb/views.h"

/* views[count] after the others; false: the text is wrong, or they are too many to model. */
bool view_option(const char *text, uint32_t count, struct tlb_view_config *views);

#endif
