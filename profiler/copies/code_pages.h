/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The program's code, page by page, as it was translated; blocks of a page that changes are dropped. */
#ifndef TLBCOST_COPIES_CODE_PAGES_H
#define TLBCOST_COPIES_CODE_PAGES_H

#include "code_cache.h"

#define CODE_PAGE_SHIFT 12u
#define CODE_PAGE_BYTES (1u << CODE_PAGE_SHIFT)

/* A page of the program's code, as it was translated. */
struct code_page {
	uint8_t bytes[CODE_PAGE_BYTES];
	struct cached_block **blocks;	/* that begin, or have instructions, in it */
	size_t count, capacity;
	bool stale;		/* it was written: read it again */
	bool writable;		/* in this copy: writes have to be noticed */
	bool protected;		/* in this copy */
};

/* Up to 16 bytes of the program's code; returns how many there are. */
size_t code_pages_fetch(struct translator *translator, const struct copy *copy, uint64_t address,
			uint8_t bytes[16]);

/* Each returns 0, or -1 with errno ENOMEM. */
/* The block begins, or has instructions, in the page of this number. */
int code_pages_note(struct translator *translator, uint64_t number, struct cached_block *block);
/* The program wrote to the page: it is read again when it is executed. */
int code_pages_written(struct translator *translator, struct code_page *page);
/* A new copy: pages whose code is not what was translated are read again. */
int code_pages_check(struct translator *translator, const struct copy *copy);

/* All blocks are gone. */
void code_pages_forget(struct translator *translator);

#endif
