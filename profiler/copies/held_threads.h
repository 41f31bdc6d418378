/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Which threads of a program wait while a copy of one of them is followed?
 *
 * A copy shares the program's memory until one of the two writes to it.  On base pages a write
 * costs a page; a huge page is split for good.  So no thread may write while the copy lives.
 * Sleeping threads are left alone.
 */
#ifndef TLBCOST_COPIES_HELD_THREADS_H
#define TLBCOST_COPIES_HELD_THREADS_H

#include <stdbool.h>
#include <sys/types.h>

#include "thread_stop.h"

/* Stop all running threads of the program except one. */
void held_threads_stop(pid_t program, pid_t except);

/* A stopped thread, restored, waits with them. */
void held_threads_add(const struct thread_stop *stop);

/* Release all. */
void held_threads_release(void);

/* The same, if they have waited for INJECTOR_HOLD_MS.  Returns whether some still wait. */
bool held_threads_expire(void);

#endif
