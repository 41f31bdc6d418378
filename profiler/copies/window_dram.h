/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which base pages does a window access beyond the modelled caches? */
#ifndef TLBCOST_COPIES_WINDOW_DRAM_H
#define TLBCOST_COPIES_WINDOW_DRAM_H

#include <stdint.h>

#include "code_block.h"
#include "window_options.h"

struct window_dram;

/* NULL with errno. */
struct window_dram *window_dram_make(const struct window_options *options);
void window_dram_free(struct window_dram *dram);

/* A window begins, with empty caches; from now on its accesses are counted; it is over. */
void window_dram_begin(struct window_dram *dram, uint32_t window);
void window_dram_count(struct window_dram *dram);
void window_dram_end(struct window_dram *dram);

/* The block was executed: see watcher.h. */
void window_dram_execute(struct window_dram *dram, const struct code_block *block,
			 const uint64_t *addresses);
/* A page walk for this address, on base pages. */
void window_dram_walk(struct window_dram *dram, uint64_t address);

/*
 * Write tables of kinds copy_dram and copy_caches to folder/<kind>.<worker>.tsv.  Returns 0, or -1
 * with errno: ENOMEM if memory ran out before.
 */
int window_dram_write(const struct window_dram *dram, const char *folder, uint32_t worker);

#endif
