/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Can the page of 2^shift bytes at this address be one?  Only where anonymous
 * memory spans all of it.  What was found of the last few pages is kept until
 * the next system call, which may change it.
 */
#ifndef TLBSIM_SPANS_H
#define TLBSIM_SPANS_H

#include "pub_tool_basics.h"

#include <stdbool.h>
#include <stdint.h>

bool spanned(uint64_t address, uint32_t shift);
void spans_forget(void);

#endif
