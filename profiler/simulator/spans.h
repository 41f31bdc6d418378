/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Can there be a page of 2^shift bytes at this address?  Only where anonymous memory spans all
 * of it.  The results for the last few pages are kept until the next system call, which may
 * change them.
 */
#ifndef TLBSIM_SPANS_H
#define TLBSIM_SPANS_H

#include "pub_tool_basics.h"

#include <stdbool.h>
#include <stdint.h>

bool spanned(uint64_t address, uint32_t shift);
void spans_forget(void);

#endif
