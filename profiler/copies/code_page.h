/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A page of the program's code, and the translated blocks in it. */
#ifndef TLBCOST_COPIES_CODE_PAGE_H
#define TLBCOST_COPIES_CODE_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "address_map.h"

struct cached_block;

#define CODE_PAGE_SHIFT 12u
#define CODE_PAGE_BYTES (1u << CODE_PAGE_SHIFT)

/* A page of the program's code, as it was translated. */
struct code_page {
	uint8_t bytes[CODE_PAGE_BYTES];
	struct cached_block **blocks;	/* that begin, or have instructions, in it */
	size_t count, capacity;
	bool stale;		/* it was written to: read it again */
	bool writable;		/* in this copy: writes have to be noticed */
	bool protected;		/* in this copy */
};

/*
 * The block begins, or has instructions, in this page.  Does nothing if the page is not
 * known.  Returns 0, or -1 with errno ENOMEM.
 */
int code_page_note(struct address_map *pages, uint64_t number, struct cached_block *block);

/* Free all pages. */
void code_page_forget_all(struct address_map *pages);

#endif
