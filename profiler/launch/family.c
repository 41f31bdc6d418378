/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "family.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

void family_add_children(struct family *family, pid_t pid, pid_t tid)
{
	char path[64];
	FILE *file;
	int child;

	snprintf(path, sizeof(path), "/proc/%ld/task/%ld/children", (long)pid, (long)tid);
	file = fopen(path, "re");
	if (!file)
		return;
	while (family->n < FAMILY_MOST && fscanf(file, "%d", &child) == 1)
		family->pids[family->n++] = child;
	fclose(file);
}

/* Those of all its threads. */
static void add_children(struct family *family, pid_t pid)
{
	struct dirent *entry;
	char path[64];
	DIR *threads;

	snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
	threads = opendir(path);
	if (!threads)
		return;
	while ((entry = readdir(threads))) {
		long tid = strtol(entry->d_name, NULL, 10);

		if (tid > 0)
			family_add_children(family, pid, (pid_t)tid);
	}
	closedir(threads);
}

void family_continue(pid_t pid)
{
	struct family family = { .pids = { pid }, .n = 1 };

	for (size_t i = 0; i < family.n; i++)
		add_children(&family, family.pids[i]);
	while (family.n)
		kill(family.pids[--family.n], SIGCONT);
}
