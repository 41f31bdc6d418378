/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Writes that a copy must not simply make: to translated code, and to memory that it shares with
 * others.  Both are read-only in a copy, so that it faults.
 */
#ifndef TLBCOST_COPIES_FAULTS_H
#define TLBCOST_COPIES_FAULTS_H

#include <stdint.h>

#include "code_cache.h"
#include "copy.h"

/* Make shared mappings read-only.  Returns 0, or -1 with errno. */
int faults_begin(struct translator *translator, struct copy *copy,
		 const struct user_regs_struct *registers);

/* The same for pages that were translated since the last call. */
int faults_protect(struct translator *translator, struct copy *copy,
		   const struct user_regs_struct *registers);

enum fault {
	FAULT_FOREIGN = 1,	/* the program's own */
	FAULT_CODE,		/* it wrote to code, whose translation was dropped */
	FAULT_SHARED,		/* the page is now private to the copy */
};

/* It faulted at the address without permission.  Returns what it was, or -1 with errno. */
int faults_resolve(struct translator *translator, struct copy *copy,
		   const struct user_regs_struct *registers, uint64_t address);

#endif
