/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What does a worker do with the jobs that it gets? */
#ifndef TLBCOST_COPIES_WORKER_H
#define TLBCOST_COPIES_WORKER_H

#include <stdint.h>

#include "window_options.h"

/*
 * Do jobs from the socket (workers.h) until it is closed.  Returns the exit code.  `number` is that
 * of the tables.
 */
int worker_run(int socket, const struct window_options *options, const char *folder,
	       uint32_t number);

#endif
