/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What does a copy execute, and which memory does it access?  The copy runs translated code; a
 * watcher sees each block that was executed, in order, with the addresses of its references.
 */
#ifndef TLBCOST_COPIES_FOLLOW_H
#define TLBCOST_COPIES_FOLLOW_H

#include "copy.h"
#include "followed.h"
#include "watcher.h"

struct translator;	/* the code cache, kept from copy to copy of one program: translator.h */

/* What the original's calls returned: replay.h.  NULL: nothing was recorded. */
struct recording;

/*
 * Follow a taken copy until its window ends.  It is still stopped afterwards, or gone; copy_kill()
 * comes next.  Returns 0.
 */
int follow(struct translator *translator, struct copy *copy, struct recording *recording,
	   const struct follow_limits *limits, const struct watcher *watcher,
	   struct followed *followed);

#endif
