/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which places of memory does a new block access?  For skim.c, which executes it so. */
#ifndef TLBCOST_COPIES_SKIM_PLACES_H
#define TLBCOST_COPIES_SKIM_PLACES_H

#include "code_cache.h"

/* A new block's plan; its references and their slots are known. */
void skim_plan_make(struct cached_block *block);

#endif
