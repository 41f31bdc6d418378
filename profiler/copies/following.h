/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A copy that is being followed: what the parts of follow() share.  Private to these. */
#ifndef TLBCOST_COPIES_FOLLOWING_H
#define TLBCOST_COPIES_FOLLOWING_H

#include <stdint.h>

#include "copy.h"
#include "followed.h"
#include "shared_memory.h"
#include "stream.h"

struct following {
	struct translator *translator;
	struct copy *copy;
	struct recording *recording;	/* NULL: nothing was recorded */
	const struct follow_limits *limits;
	struct followed *followed;
	struct stream stream;
	struct shared_memory shared;	/* of the copy */
	/* The program's, whenever translated code ends; else those of the last stop. */
	struct user_regs_struct registers;
	uint64_t deadline_ns;	/* 0: none */
};

/* After a stop the copy continues, or its window has ended. */
enum { CONTINUES, ENDED };

/* Always ENDED. */
int following_end(struct following *following, enum follow_end how);

/* Map the area, and have all code that is known in it.  Returns 0, or -1 with errno. */
int following_map_area(struct following *following);

/* It makes this call for real.  Returns the kernel's result; errno is set, ESRCH if it is gone. */
int64_t following_call(struct following *following, long number, const uint64_t arguments[6]);

/* Returns 0, or -1 with errno. */
int following_set_registers(struct following *following);

/* Continue with the program's code at this address; or it ends there. */
int following_enter(struct following *following, uint64_t address);

/* The same, from the jump at this exit: that goes there directly from now on. */
int following_chain(struct following *following, uint32_t exit_offset, uint64_t address);

/* A call changed mappings: drop what was translated of them.  Returns 0, or -1 with errno. */
int following_mapped_anew(struct following *following, uint64_t start, uint64_t bytes);
/* Does this call change mappings? */
bool following_changes_mappings(uint64_t number);

/* The copy is about to make a system call (follow_calls.c). */
int following_at_call(struct following *following, uint64_t address);

/* A general register by its number in instructions. */
unsigned long long *following_register(struct user_regs_struct *registers, unsigned number);

/* In a stop by a signal: whether the copy has only filled its buffer, at that address. */
bool following_is_at_guard(const struct following *following, uint64_t *address);
int following_at_guard(struct following *following, uint64_t address);

/* Whether the int3 at this offset of the code asks for the block of AREA_TARGET. */
bool following_is_unknown_target(uint64_t offset);

#endif
