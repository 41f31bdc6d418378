/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which threads are traced, and which of them share their memory? */
#ifndef TLBCOST_THP_TASKS_H
#define TLBCOST_THP_TASKS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "registers.h"

/* The address space of the threads that point to it. */
struct memory {
	unsigned users;
	unsigned leaving;	/* users that are at their end (PTRACE_EVENT_EXIT) */
	uint64_t round;	/* the last in which it was counted (reached.h) */
	int fresh;	/* of a program that was just executed: its bss has not asked yet */
	int filtered;	/* the program has a seccomp filter of its own: leave it alone */
	/* Where the program believes its heap to end, and where it does; 0: not known. */
	uint64_t heap_start, believed_end, heap_end;
	/* Mapped in advance for small mappings to come; next == end: nothing is. */
	uint64_t arena_next, arena_end;
	int arena_refused;	/* there is no room for one, e.g. by RLIMIT_AS */
};

enum task_state {
	TASK_RUNNING,
	TASK_NEW,	/* stopped before its first instruction, until its parent says so */
	TASK_IN_CALL,	/* stopped at the entry of a traced call, and now in it */
};

struct task {
	pid_t tid;
	enum task_state state;
	int leaving;
	unsigned waited;	/* rounds of tracer_run() in which it was new */
	struct memory *memory;
	struct registers entry;	/* of that call, as the program made it */
	uint64_t arena_bytes;	/* what it wants of the arena that the call makes; 0: it makes none */
};

/* All of them.  Zeroed is empty. */
struct tasks {
	struct task **all;
	size_t count, capacity;
};

/* Returns NULL if it is not there. */
struct task *tasks_find(const struct tasks *tasks, pid_t tid);

/* Add one, with a memory of its own.  Returns NULL with errno set. */
struct task *tasks_add(struct tasks *tasks, pid_t tid);

/* It is at its end, and still has its memory.  Returns 1 if nobody else will. */
int tasks_leave(struct task *task);

void tasks_remove(struct tasks *tasks, struct task *task);

/* It shares the memory of `parent`, or starts with a copy of what is known of it. */
void tasks_share(struct task *task, const struct task *parent);
void tasks_copy(struct task *task, const struct task *parent);

/* It executes a new program.  Returns 0, or -1 with errno. */
int tasks_renew(struct task *task);

/* How many memories there are: processes, but for those that share one. */
size_t tasks_memories(const struct tasks *tasks);

void tasks_free(struct tasks *tasks);

#endif
