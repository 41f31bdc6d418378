/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "reached.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "clock.h"

/* Of the largest sum, that is at the peak; the latest there counts. */
#define NEAR(bytes) ((bytes) / 20 * 19)
/* Reading page tables keeps a program from mapping memory. */
#define REST 50u

int reached_of(pid_t pid, uint64_t *anonymous_bytes, uint64_t *huge_bytes)
{
	char path[48], line[256];
	uint64_t kilobytes;
	int found = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	file = fopen(path, "re");
	if (!file)
		return -1;
	errno = 0;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, "Anonymous: %" SCNu64, &kilobytes) == 1) {
			*anonymous_bytes = kilobytes << 10;
			found |= 1;
		} else if (sscanf(line, "AnonHugePages: %" SCNu64, &kilobytes) == 1) {
			*huge_bytes = kilobytes << 10;
			found |= 2;
		}
	}
	fclose(file);
	if (found == 3)
		return 0;
	errno = errno ? errno : ESRCH;
	return -1;
}

/* Resident pages that no file has: nearly the same, and at once. */
static uint64_t cheap_bytes(pid_t pid)
{
	uint64_t resident, shared, bytes = 0;
	char path[32];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file, "%*s %" SCNu64 " %" SCNu64, &resident, &shared) == 2 && resident > shared)
		bytes = (resident - shared) * (uint64_t)sysconf(_SC_PAGESIZE);
	fclose(file);
	return bytes;
}

/* The next task whose memory was not counted in this round yet. */
static const struct task *next(struct reached *reached, const struct tasks *tasks, size_t *i)
{
	while (*i < tasks->count) {
		const struct task *task = tasks->all[(*i)++];

		if (task->memory->round != reached->round) {
			task->memory->round = reached->round;
			return task;
		}
	}
	return NULL;
}

static uint64_t cheap_sum(struct reached *reached, const struct tasks *tasks)
{
	const struct task *task;
	uint64_t sum = 0;
	size_t i = 0;

	reached->round++;
	while ((task = next(reached, tasks, &i)))
		sum += cheap_bytes(task->tid);
	return sum;
}

static void look_closely(struct reached *reached, const struct tasks *tasks)
{
	uint64_t anonymous = 0, huge = 0;
	const struct task *task;
	unsigned processes = 0;
	size_t i = 0;

	reached->round++;
	while ((task = next(reached, tasks, &i))) {
		uint64_t of_it, huge_of_it;

		if (reached_of(task->tid, &of_it, &huge_of_it) < 0)
			continue;
		anonymous += of_it;
		huge += huge_of_it;
		processes++;
	}
	/* It may have given memory back by now. */
	if (!processes || anonymous < NEAR(reached->largest))
		return;
	reached->largest = anonymous > reached->largest ? anonymous : reached->largest;
	reached->seen = 1;
	reached->anonymous_bytes = anonymous;
	reached->huge_bytes = huge;
	reached->processes = processes;
}

void reached_look(struct reached *reached, const struct tasks *tasks, int always)
{
	uint64_t sum, begin = clock_ns();

	if (!always && begin - reached->looked_ns < REST * reached->took_ns)
		return;
	sum = cheap_sum(reached, tasks);
	if (sum && sum >= NEAR(reached->largest))
		look_closely(reached, tasks);
	reached->looked_ns = clock_ns();
	reached->took_ns = reached->looked_ns - begin;
}
