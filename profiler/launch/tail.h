/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What were the last words that a program wrote? */
#ifndef TLBCOST_LAUNCH_TAIL_H
#define TLBCOST_LAUNCH_TAIL_H

#include <stddef.h>

#define TAIL_BYTES 4096

/* A ring of the last TAIL_BYTES bytes.  Zeroed is empty.  Fields are private. */
struct tail {
	char bytes[TAIL_BYTES];
	size_t next;	/* where the next byte goes */
	size_t length;	/* bytes held */
};

/* Remember the end of what was held followed by these bytes. */
void tail_add(struct tail *tail, const char *bytes, size_t length);

/*
 * Write the bytes, oldest first, as a new file.  Returns 0, or -1 with errno;
 * then no file of that name is left.
 */
int tail_save(const struct tail *tail, const char *path);

#endif
