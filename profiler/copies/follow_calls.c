/* SPDX-License-Identifier: GPL-2.0-or-later */
/* System calls of a copy: made, answered, replayed, or the end of its window. */
#include "following.h"

#include <errno.h>
#include <sys/syscall.h>

#include "area.h"
#include "calls.h"
#include "code_cache.h"
#include "replay.h"

#define CALL_INSTRUCTION_BYTES 2u

/* The copy makes the call for real. */
static int make_call(struct following *following)
{
	struct user_regs_struct *r = &following->registers;
	const uint64_t arguments[6] = { r->rdi, r->rsi, r->rdx, r->r10, r->r8, r->r9 };
	const uint64_t number = r->rax;
	const int64_t result = following_call(following, (long)number, arguments);

	if (result == COPY_LOST)
		return following_end(following, FOLLOW_EXITED);
	/* The kernel does not fill what was shared. */
	if (result == -EFAULT)
		return following_end(following, FOLLOW_CALL);
	r->rax = (uint64_t)result;
	if (result >= 0 && following_changes_mappings(number) &&
	    following_mapped_anew(following, number == SYS_mmap ? (uint64_t)result : arguments[0],
			arguments[1]) < 0)
		return following_end(following, FOLLOW_FAILED);
	return CONTINUES;
}

static struct call_limits limits_of(struct following *following)
{
	return (struct call_limits){ following->translator->area, AREA_BYTES, &following->shared };
}

/* Returns whether the call is answered, or made, as it was recorded; rc is what came of that. */
static bool replayed(struct following *following, int *rc)
{
	const struct call_limits limits = limits_of(following);
	const struct user_regs_struct before = following->registers;
	struct user_regs_struct *r = &following->registers;
	int64_t result = 0;

	if (!following->recording)
		return false;
	switch (replay(following->recording, following->copy, r, &limits, &result)) {
	case REPLAY_ANSWERED:
		*rc = CONTINUES;
		break;
	case REPLAY_REAL:
		*rc = make_call(following);
		if (*rc == CONTINUES && (int64_t)r->rax != result)
			*rc = following_end(following, FOLLOW_CALL);
		/* Only its result is the program's, as its arguments may have been changed. */
		result = (int64_t)r->rax;
		*r = before;
		r->rax = (unsigned long long)result;
		break;
	case REPLAY_NOTHING:
		return false;
	default:
		*rc = following_end(following, FOLLOW_FAILED);
		break;
	}
	following->followed->replayed++;
	return true;
}

int following_at_call(struct following *following, uint64_t address)
{
	const struct call_limits limits = limits_of(following);
	struct user_regs_struct *r = &following->registers;
	int rc = CONTINUES;

	following->followed->calls++;
	following->followed->call = (long)r->rax;
	following->followed->address = address;
	r->rip = address + CALL_INSTRUCTION_BYTES;
	if (!replayed(following, &rc)) {
		switch (calls_decide(following->copy, r, &limits)) {
		case CALL_ENDS:
			rc = following_end(following, FOLLOW_CALL);
			break;
		case CALL_REAL:
			rc = make_call(following);
			break;
		case CALL_ANSWERED:
			break;
		}
	}
	if (rc == ENDED) {
		r->rip = address;
		return rc;
	}
	/* As the instruction leaves them. */
	r->rcx = r->rip;
	r->r11 = r->eflags;
	return following_enter(following, r->rip);
}
