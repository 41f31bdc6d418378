/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long do string instructions take that repeat?  As long as the lines that they access. */
#ifndef TLBCOST_COPIES_STRING_LINES_H
#define TLBCOST_COPIES_STRING_LINES_H

#include "code_block.h"
#include "timing/core.h"

/*
 * The block, whose string instructions accessed their first lines, was executed: they access the
 * others.  `cores`: at most BLOCK_CORES.
 */
void string_lines_run(const struct code_block *code, const uint64_t *addresses, struct core *cores,
		      uint32_t count);

#endif
