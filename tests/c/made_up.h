/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A machine made up for a test: files of /proc and /sys below a folder of its own. */
#ifndef TLBCOST_MADE_UP_H
#define TLBCOST_MADE_UP_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"

static char root[] = "/tmp/tlbcost-test.XXXXXX";

/* Make a file of the machine, with the folders above it. */
static inline void put(const char *path, const char *text)
{
	char full[512];
	FILE *file;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *c = full + strlen(root) + 1; (c = strchr(c, '/')); *c++ = '/') {
		*c = '\0';
		mkdir(full, 0755);
	}
	file = fopen(full, "w");
	CHECK(file != NULL);
	if (!file)
		return;
	fputs(text, file);
	fclose(file);
}

/* Begin a machine without any files. */
static inline void start(void)
{
	strcpy(root + strlen(root) - 6, "XXXXXX");
	CHECK(mkdtemp(root) != NULL);
	setenv("TLBCOST_ROOT", root, 1);
}

static inline void finish(void)
{
	char command[600];

	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	CHECK_EQUAL(system(command), 0);
	unsetenv("TLBCOST_ROOT");
}

#endif
