/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Can there be a page of 2^shift bytes at this address?  Only in a mapping of anonymous memory
 * that is at least as large: on such pages it would begin at a multiple of their size, which
 * here it need not.  So it may touch one page more.  The results for the last few mappings are
 * kept until the next system call, which may change them.
 */
#ifndef TLBSIM_SPANS_H
#define TLBSIM_SPANS_H

#include "pub_tool_basics.h"

#include <stdbool.h>
#include <stdint.h>

bool spanned(uint64_t address, uint32_t shift);
void spans_forget(void);

#endif
