/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How is a program run with its memory on huge pages, as if nothing else were there? */
#ifndef TLBCOST_THP_SUPERVISOR_H
#define TLBCOST_THP_SUPERVISOR_H

#include <stdint.h>

#include "user.h"

/* A program to run. */
struct supervised {
	char *const *argv;
	const char *table;			/* NULL: none is written */
	const struct user_account *user;	/* NULL: as we are */
	uint64_t huge_page_bytes;
	int text;				/* its code, too */
};

/*
 * Run a program to its end, and write a 'thp' table of what its memory got.  A process of its own does the tracing, and goes
 * on with it while processes that the program left behind live.
 * Returns the exit code to pass on: the program's own, or 128 + the signal that
 * killed it; 126 or 127 if it could not be started; -1 with errno and *failed,
 * what failed, and nothing is left.
 */
int supervisor_run(const struct supervised *what, const char **failed);

#endif
