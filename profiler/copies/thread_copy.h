/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Copies of a stopped thread, parked until a worker follows them. */
#ifndef TLBCOST_COPIES_THREAD_COPY_H
#define TLBCOST_COPIES_THREAD_COPY_H

#include "injector.h"
#include "thread_stop.h"
#include "unforked_memory.h"

/*
 * Make the copies of a prepared stop, which are traced and stop by themselves.  `is_init`: the
 * program is the first process of its PID namespace.  `unforked`: memory that they must have
 * nevertheless.  Returns INJECTED with answer->copies; or REFUSED_CLONE with answer->error.
 */
enum injector_refusal thread_copy_make(struct thread_stop *stop,
				       const struct injector_request *request, bool is_init,
				       const struct unforked_memory *unforked,
				       struct injector_answer *answer);

/*
 * Detach a copy from the program and everything else, and park it: it waits untraced, and exits
 * after a minute if no tracer takes it.  Returns 0; or -1, and it is dead.
 */
int thread_copy_park(const struct copy *copy, const struct injector_request *request);

/* Kill a copy that is traced. */
void thread_copy_kill(pid_t pid);

#endif
