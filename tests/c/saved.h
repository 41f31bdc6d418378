/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What does a tail hold? */
#ifndef TLBCOST_SAVED_H
#define TLBCOST_SAVED_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tail.h"

/* Read what the tail holds through its file: how many bytes, -1 if it could not be saved. */
static inline long saved(const struct tail *tail, char *bytes, size_t room)
{
	char path[] = "/tmp/tlbcost-tail.XXXXXX";
	int fd = mkstemp(path);
	FILE *file;
	size_t n;

	if (fd < 0)
		return -1;
	close(fd);
	if (tail_save(tail, path) < 0)
		return -1;
	file = fopen(path, "re");
	if (!file)
		return -1;
	n = fread(bytes, 1, room, file);
	fclose(file);
	unlink(path);
	return (long)n;
}

#endif
