/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What do /proc and /sys say about this machine, and how much memory may we use? */
#ifndef TLBCOST_SYSFILE_H
#define TLBCOST_SYSFILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/*
 * Open a file under /proc or /sys for reading; if the environment variable TLBCOST_ROOT is
 * set, the file of that test machine.  `format` makes the absolute path.  Returns NULL with
 * errno set.
 */
FILE *sysfile_open(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Read the first line, without its newline.  Returns 0, or -1 with errno set. */
int sysfile_line(char *line, size_t size, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Read the first number of a file that holds one (bytes, pages, ...).
 * Returns 0, or -1 with errno set: ERANGE if the file says "max".
 */
int sysfile_number(uint64_t *number, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Read one field of /proc/meminfo in bytes.  Returns 0, or -1 with errno set. */
int sysfile_meminfo(const char *field, uint64_t *bytes);

/* How much more memory can be used, and which limit says so. */
struct memory_room {
	uint64_t bytes;
	char limit[512];	/* a sentence part, such as "MemAvailable of /proc/meminfo" */
};

/*
 * The smallest of MemAvailable and what the memory limits of this process's cgroup and its
 * ancestors (version 1 and 2) leave, counting file pages that the kernel drops on demand as
 * free.  Returns 0, or -1 with errno set if even /proc/meminfo does not help.
 */
int sysfile_memory_room(struct memory_room *room);

/* The same for what another process uses: the limits of its cgroups.  process: its id. */
int sysfile_memory_room_of(struct memory_room *room, const char *process);

#endif
