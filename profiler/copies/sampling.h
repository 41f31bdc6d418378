/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * When is which thread of the program copied?  At random instants of its CPU time (budget.h): when
 * one is reached, a thread that runs is copied, and a worker follows the copy.  Threads that sleep
 * are never stopped: if none runs then, the next one that is seen to run is taken.
 */
#ifndef TLBCOST_COPIES_SAMPLING_H
#define TLBCOST_COPIES_SAMPLING_H

#include "sampling_state.h"

/* Start the injector.  Returns 0, or -1 with errno. */
int sampling_open(struct sampling *sampling, const struct sampling_options *options,
		  struct workers *workers, const char *injector);

/* `launched`: the program is our child, which waits to execute it.  Returns 0, or -1 with errno. */
int sampling_begin(struct sampling *sampling, pid_t pid, bool launched);

/* sampling->fd is readable.  Returns 0; or -1 with errno. */
int sampling_ready(void *context);

/*
 * No more copies.  `patient`: those being followed may finish their windows.  Afterwards no copy is
 * left, and all are reaped, if the program can do that.
 */
void sampling_end(struct sampling *sampling, bool patient);

/* Write the table; the CPU time is that seen. */
int sampling_write(struct sampling *sampling, const char *folder, const char *program,
		   uint32_t workers, uint32_t lost_workers, uint64_t end_ns);
void sampling_close(struct sampling *sampling);

#endif
