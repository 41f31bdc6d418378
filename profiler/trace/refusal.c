/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "refusal.h"

#include <errno.h>
#include <sys/ptrace.h>

enum injector_refusal refusal_of_error(int error)
{
	switch (error) {
	case ESRCH:
	case ENOENT:
		return REFUSED_GONE;
	case EPERM:
	case EACCES:
		return REFUSED_PERMISSION;
	default:
		return REFUSED_FAILED;
	}
}

enum injector_refusal refusal_of_facts(const struct thread_facts *facts, bool sleeping)
{
	switch (facts->state) {
	case 'R':
		break;
	case 'S':
	case 'I':
		if (!sleeping)
			return REFUSED_SLEEPING;
		break;
	case 'T':
		return REFUSED_STOPPED;
	case 't':
		return REFUSED_TRACED;
	case 'Z':
	case 'X':
		return REFUSED_GONE;
	default:
		return REFUSED_BUSY;
	}
	if (facts->tracer)
		return REFUSED_TRACED;
	return facts->seccomp ? REFUSED_SECCOMP : INJECTED;
}

/* The kernel says EPERM also of a thread that has just ended, and of one that has a tracer. */
enum injector_refusal refusal_to_trace(pid_t program, pid_t thread)
{
	int error = errno;
	struct thread_facts facts;

	if (error != EPERM)
		return refusal_of_error(error);
	if (thread_facts_read(program, thread, &facts) < 0 || facts.state == 'Z' ||
	    facts.state == 'X')
		return REFUSED_GONE;
	return facts.tracer ? REFUSED_TRACED : REFUSED_PERMISSION;
}

#define GET_USER_DISPATCH 0x4211

bool refusal_dispatches_calls(pid_t thread)
{
	struct {
		uint64_t mode, selector, offset, length;
	} dispatch = { .mode = 0 };

	return ptrace(GET_USER_DISPATCH, thread, sizeof(dispatch), &dispatch) == 0 &&
		dispatch.mode != 0;
}
