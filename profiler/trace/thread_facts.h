/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What does /proc say about a thread that is to be copied? */
#ifndef TLBCOST_TRACE_THREAD_FACTS_H
#define TLBCOST_TRACE_THREAD_FACTS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct thread_facts {
	char state;		/* R, S, D, T, t, Z, X */
	pid_t tracer;		/* 0: none */
	unsigned seccomp;	/* 0: none, 1: strict, 2: a filter */
	unsigned namespaces;	/* PID namespaces in which it has a PID */
	bool is_init;		/* its process is the first one of its PID namespace */
	/* Bit n - 1 is signal n. */
	uint64_t pending, shared_pending, blocked, ignored, caught;
	uint64_t resident_bytes, hugetlb_bytes;
	bool shadow_stack;	/* of control-flow enforcement */
};

/* Returns 0, or -1 with errno. */
int thread_facts_read(pid_t process, pid_t thread, struct thread_facts *facts);

/*
 * Whether a signal is pending that would interrupt it with this mask.  One that is ignored is
 * pending only because the thread is traced.
 */
bool thread_facts_interrupted(const struct thread_facts *facts, uint64_t mask);

#endif
