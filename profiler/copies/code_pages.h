/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The pages of the program's code, as it was when it was translated.  Private to the code cache. */
#ifndef TLBCOST_COPIES_CODE_PAGES_H
#define TLBCOST_COPIES_CODE_PAGES_H

#include <stdint.h>

#include "code_cache.h"

/* The block has instructions in this page.  Returns 0, or -1 with errno ENOMEM. */
int code_pages_note(struct translator *translator, uint64_t number, struct cached_block *block);

/* In a new copy: those whose code is another are read again, and their blocks dropped.  As above. */
int code_pages_check(struct translator *translator, const struct copy *copy);

void code_pages_free(struct address_map *pages);

#endif
