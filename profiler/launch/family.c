/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "family.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

/* What outlives SIGKILL for that long waits in the kernel, or is another user's. */
#define MOST_KILLING_NS 1000000000u

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

void family_of(struct family *family, pid_t pid, pid_t except)
{
	family->pids[0] = pid;
	family->n = 1;
	for (size_t i = 0; i < family->n; i++) {
		size_t known = family->n;

		add_children(family, family->pids[i]);
		for (size_t j = known; j < family->n; j++)
			if (family->pids[j] == except)
				family->pids[j] = family->pids[--family->n];
	}
}

void family_signal(const struct family *family, int number)
{
	for (size_t i = family->n; i-- > 0;) {
		kill(family->pids[i], number);
		kill(family->pids[i], SIGCONT);
	}
}

static int has(const struct family *family, pid_t pid)
{
	for (size_t i = 0; i < family->n; i++)
		if (family->pids[i] == pid)
			return 1;
	return 0;
}

/* What is below us now, without us and `spared`. */
static void find_rest(struct family *rest, const struct family *spared)
{
	struct family all;

	family_of(&all, getpid(), 0);
	rest->n = 0;
	for (size_t i = 1; i < all.n; i++)
		if (!has(spared, all.pids[i]))
			rest->pids[rest->n++] = all.pids[i];
}

void family_end_rest(const struct family *spared, uint64_t deadline)
{
	const struct timespec pause = { .tv_nsec = 10000000 };
	uint64_t last = deadline + MOST_KILLING_NS;
	struct family rest;
	int number = SIGTERM;

	for (;;) {
		find_rest(&rest, spared);
		for (size_t i = 0; i < rest.n; i++)
			waitpid(rest.pids[i], NULL, WNOHANG);
		find_rest(&rest, spared);
		if (!rest.n || clock_ns() >= last)
			return;
		if (clock_ns() >= deadline)
			number = SIGKILL;
		/* SIGTERM once: its handler may take a while. */
		if (number)
			family_signal(&rest, number);
		number = 0;
		nanosleep(&pause, NULL);
	}
}
