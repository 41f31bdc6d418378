/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The call stack of a copy at its beginning. */
#ifndef TLBCOST_COPIES_UNWIND_H
#define TLBCOST_COPIES_UNWIND_H

#include <stdint.h>

#include "copy.h"

/*
 * Return addresses of a taken copy, which has not run yet, innermost first; as many as there is
 * room for.  By unwind tables of the files' code, and by frame pointers where there are none; no
 * file next to these is looked for.  Returns their number; 0 if nothing is known.
 */
unsigned unwind(const struct copy *copy, uint64_t *addresses, unsigned room);

#endif
