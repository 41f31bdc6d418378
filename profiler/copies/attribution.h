/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which memory and which code do the misses of each window belong to?  By mapping, instruction and
 * calls; names are looked up later, elsewhere.
 */
#ifndef TLBCOST_COPIES_ATTRIBUTION_H
#define TLBCOST_COPIES_ATTRIBUTION_H

#include <stdbool.h>
#include <stdint.h>

#include "code_block.h"
#include "copy.h"
#include "timing/config.h"
#include "tlb/model.h"

struct attribution;

/* NULL with errno. */
struct attribution *attribution_make(void);
void attribution_free(struct attribution *attribution);

/*
 * A window begins, in a taken copy: read its mappings and its call stack.  Returns 0, or -1 with
 * errno.
 */
int attribution_begin(struct attribution *attribution, const struct copy *copy, uint32_t window);

/* In its measured part: the instruction at `where` missed the first level. */
void attribution_missed(struct attribution *attribution, enum tlb_size size, uint64_t address,
			enum tlb_side side, bool walk, uint64_t where);
/* The modelled core waited for the address's translation. */
void attribution_waited(struct attribution *attribution, enum tlb_size size, uint64_t address,
			ticks time);
/* A block was executed, in any part. */
void attribution_executed(struct attribution *attribution, const struct code_block *block,
			  const uint64_t *addresses, uint64_t next);

void attribution_end(struct attribution *attribution);

/*
 * Write tables of kinds copy_mappings, copy_memory, copy_blocks, copy_code, copy_stacks and
 * copy_frames to folder/<kind>.<worker>.tsv.  Returns 0, or -1 with errno.
 */
int attribution_write(const struct attribution *attribution, const char *folder, uint32_t worker);

#endif
