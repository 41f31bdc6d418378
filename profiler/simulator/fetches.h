/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which code pages does a block execute?  Fetches are noted at a block's exits, not at its
 * entry: most jumps stay in their page, and a page that is used again immediately keeps its
 * place in the LRU order.
 */
#ifndef TLBSIM_FETCHES_H
#define TLBSIM_FETCHES_H

#include "emit.h"

/* Where the block starts, and an instruction of it (its IMark). */
void fetch_start(struct emitter *emitter, ULong address);
void fetch_instruction(struct emitter *emitter, const IRStmt *mark);
/* Where it may exit, and where it continues; both end the run. */
void fetch_exit(struct emitter *emitter, const IRStmt *exit);
void fetch_next(struct emitter *emitter, const IRExpr *next);

#endif
