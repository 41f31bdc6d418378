/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How does a block of the program's code become code that writes down its references? */
#ifndef TLBCOST_COPIES_TRANSLATE_H
#define TLBCOST_COPIES_TRANSLATE_H

#include "code_cache.h"
#include "copy.h"

/*
 * The block that begins at the address; translated, with some that follow it, if it was not.  There
 * is space for them (code_cache_full()).  NULL with errno: EFAULT if there is no code, ENOMEM.
 */
struct cached_block *translate_code(struct translator *translator, const struct copy *copy,
			       uint64_t address);

#endif
