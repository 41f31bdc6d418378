/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Faults of a copy that we caused: its translated code is read-only, and what it shared is filled late. */
#ifndef TLBCOST_COPIES_FAULTS_H
#define TLBCOST_COPIES_FAULTS_H

#include <stdint.h>

#include "code_cache.h"
#include "copy.h"
#include "shared_memory.h"

/* Make pages read-only that were translated since the last call.  Returns 0, or -1 with errno. */
int faults_protect(struct translator *translator, struct copy *copy,
		   const struct user_regs_struct *registers);

enum fault {
	FAULT_FOREIGN = 1,	/* the program's own */
	FAULT_CODE,		/* it wrote to code, whose translation was dropped */
	FAULT_SHARED,		/* the memory was shared, and has its content now */
};

/* It faulted at the address without permission.  Returns what it was, or -1 with errno. */
int faults_resolve(struct translator *translator, struct copy *copy, struct shared_memory *shared,
		   const struct user_regs_struct *registers, uint64_t address);

#endif
