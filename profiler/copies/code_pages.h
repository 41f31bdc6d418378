/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The program's code as it was translated; blocks of pages that change are dropped. */
#ifndef TLBCOST_COPIES_CODE_PAGES_H
#define TLBCOST_COPIES_CODE_PAGES_H

#include "code_cache.h"
#include "code_page.h"

/* Up to 16 bytes of the program's code; returns how many there are. */
size_t code_pages_fetch(struct translator *translator, const struct copy *copy, uint64_t address,
			uint8_t bytes[16]);

/*
 * The program wrote to the page: it is read again when it is executed.  Returns 0, or -1 with errno
 * ENOMEM.
 */
int code_pages_written(struct translator *translator, struct code_page *page);

/*
 * A new copy: pages whose code is not what was translated are read again, their blocks dropped, and
 * what is left is sent to it.  Returns 0, or -1 with errno.
 */
int code_pages_begin(struct translator *translator, const struct copy *copy);

#endif
