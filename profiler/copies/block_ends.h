/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How control leaves a block.  Private to block_code.c. */
#ifndef TLBCOST_COPIES_BLOCK_ENDS_H
#define TLBCOST_COPIES_BLOCK_ENDS_H

#include "translation.h"

/* At its end; what may come next is added to `ahead`.  Returns 0, or -1 with errno ENOMEM. */
int block_end(struct translation *made, enum flow flow, struct ahead *ahead);

/*
 * By branches that end a part, but not the last one: fewer parts were executed.  `number` is that
 * of the first.  Returns as above.
 */
int block_side_exits(struct translation *made, uint32_t number, struct ahead *ahead);

#endif
