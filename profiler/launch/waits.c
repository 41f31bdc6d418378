/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "waits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "family.h"

/* The first sample, and the shortest time between two. */
#define SHORTEST_NS 10000000u
/* The next one is after this part of the time so far. */
#define PART 20
/* ... and not before N times the CPU time of the last one. */
#define REST 100
#define MOST_TASKS 1024

struct wait_task {
	pid_t tid;
	uint64_t cpu_ns, waited_ns;
	/* Of earlier threads that had this number. */
	uint64_t past_cpu_ns, past_waited_ns;
};

void waits_start(struct waits *waits, pid_t pid)
{
	memset(waits, 0, sizeof(*waits));
	waits->pid = pid;
	waits->start_ns = clock_ns();
	waits->next_ns = waits->start_ns + SHORTEST_NS;
}

uint64_t waits_due(const struct waits *waits)
{
	return waits->next_ns;
}

static struct wait_task *task_of(struct waits *waits, pid_t tid)
{
	struct wait_task *tasks;

	for (size_t i = 0; i < waits->n; i++)
		if (waits->tasks[i].tid == tid)
			return &waits->tasks[i];
	if (waits->n == waits->capacity) {
		size_t capacity = waits->capacity ? 2 * waits->capacity : 16;

		tasks = capacity > MOST_TASKS ? NULL :
			reallocarray(waits->tasks, capacity, sizeof(*tasks));
		if (!tasks) {
			waits->lost = 1;
			return NULL;
		}
		waits->tasks = tasks;
		waits->capacity = capacity;
	}
	tasks = &waits->tasks[waits->n++];
	*tasks = (struct wait_task){ .tid = tid };
	return tasks;
}

/* Returns the bytes read, with a NUL behind them; 0 for a file that is gone. */
static size_t read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	size_t length = 0;
	ssize_t n = 1;

	while (fd >= 0 && n > 0 && length + 1 < size) {
		n = read(fd, text + length, size - 1 - length);
		if (n > 0)
			length += (size_t)n;
	}
	if (fd >= 0)
		close(fd);
	text[length] = '\0';
	return length;
}

/* Time on a CPU, then time ready for one, in ns (the kernel's sched-stats.rst). */
static void note(struct waits *waits, const char *path, pid_t tid)
{
	unsigned long long cpu_ns, waited_ns;
	struct wait_task *task;
	char text[128];

	if (!read_file(path, text, sizeof(text)) ||
	    sscanf(text, "%llu %llu", &cpu_ns, &waited_ns) != 2)
		return;
	task = task_of(waits, tid);
	if (!task)
		return;
	if (cpu_ns < task->cpu_ns) {
		task->past_cpu_ns += task->cpu_ns;
		task->past_waited_ns += task->waited_ns;
	}
	task->cpu_ns = cpu_ns;
	task->waited_ns = waited_ns;
}

static void sample_process(struct waits *waits, pid_t pid, struct family *family)
{
	char path[PATH_MAX];
	struct dirent *entry;
	DIR *threads;

	snprintf(path, sizeof(path), "/proc/%ld/task", (long)pid);
	threads = opendir(path);
	if (!threads)
		return;
	while (!waits->lost && (entry = readdir(threads))) {
		long tid = strtol(entry->d_name, NULL, 10);

		if (tid <= 0)
			continue;
		snprintf(path, sizeof(path), "/proc/%ld/task/%ld/schedstat", (long)pid, tid);
		note(waits, path, (pid_t)tid);
		family_add_children(family, pid, (pid_t)tid);
	}
	closedir(threads);
}

/* Not the time of day: where the program waits for a CPU, so do we, and are needed most. */
static uint64_t own_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void waits_sample(struct waits *waits)
{
	struct family family = { .pids = { waits->pid }, .n = 1 };
	uint64_t cpu_ns = own_cpu_ns(), now_ns, pause_ns;

	for (size_t i = 0; i < family.n && !waits->lost; i++)
		sample_process(waits, family.pids[i], &family);
	cpu_ns = own_cpu_ns() - cpu_ns;
	now_ns = clock_ns();
	pause_ns = (now_ns - waits->start_ns) / PART;
	if (pause_ns < REST * cpu_ns)
		pause_ns = REST * cpu_ns;
	if (pause_ns < SHORTEST_NS)
		pause_ns = SHORTEST_NS;
	waits->next_ns = waits->lost ? UINT64_MAX : now_ns + pause_ns;
}

void waits_last(struct waits *waits)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%ld/schedstat", (long)waits->pid);
	note(waits, path, waits->pid);
}

int waits_total(const struct waits *waits, uint64_t cpu_ns, uint64_t *waited_ns)
{
	uint64_t seen_ns = 0;

	*waited_ns = 0;
	for (size_t i = 0; i < waits->n; i++) {
		const struct wait_task *task = &waits->tasks[i];

		seen_ns += task->cpu_ns + task->past_cpu_ns;
		*waited_ns += task->waited_ns + task->past_waited_ns;
	}
	if (waits->lost || !seen_ns || seen_ns < cpu_ns / 10 * 9 || cpu_ns < seen_ns / 10 * 9)
		return -1;
	return 0;
}

void waits_free(struct waits *waits)
{
	free(waits->tasks);
	memset(waits, 0, sizeof(*waits));
}
