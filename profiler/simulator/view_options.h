/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which further machines does the command line name? */
#ifndef TLBSIM_VIEW_OPTIONS_H
#define TLBSIM_VIEW_OPTIONS_H

#include "options.h"

/* What --view says of one, and --view-core of the core that it is timed on; False: it is wrong. */
Bool view_option(const HChar *text, struct options *given);
Bool view_core_option(const HChar *text, struct options *given);

#endif
