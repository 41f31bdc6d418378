/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Private anonymous memory in a copy or an arm, in place of what is mapped there. */
#ifndef TLBCOST_COPIES_PRIVATE_MEMORY_H
#define TLBCOST_COPIES_PRIVATE_MEMORY_H

#include <stdint.h>

#include "copy.h"

/*
 * New anonymous memory with the same content in place of [start, end), with this protection.  All
 * of it gets pages of this size, if the kernel grants huge ones; 0: base pages, and none for what
 * is only zeros.  Here and below, `registers` are those of the stopped process.  Returns 0; or -1
 * with errno (ESRCH: it is lost), and then the process is of no more use.
 */
int private_memory_replace(struct copy *copy, const struct user_regs_struct *registers,
			   uint64_t start, uint64_t end, uint64_t protection,
			   uint64_t page_bytes);

/*
 * In place of file-backed code, in mappings of at least `least_bytes`.  It becomes writable, too.
 */
int private_memory_text(struct copy *copy, const struct user_regs_struct *registers,
			uint64_t least_bytes);

#endif
