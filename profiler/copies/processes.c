/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "processes.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "budget.h"

#define MOST_PROCESSES 4096u
#define HUGE_LOOK_NS UINT64_C(10000000000)

static size_t read_text(char *text, size_t size, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length = fd < 0 ? -1 : read(fd, text, size - 1);

	if (fd >= 0)
		close(fd);
	text[length > 0 ? length : 0] = '\0';
	return length > 0 ? (size_t)length : 0;
}

/* Fields of /proc/PID/stat from the third on; a name may hold anything. */
static const char *behind_name(const char *text)
{
	const char *end = strrchr(text, ')');

	return end && end[1] == ' ' ? end + 2 : NULL;
}

int process_status(pid_t pid, struct process_status *status)
{
	unsigned long long faults, threads, start, pages, code, stack;
	char path[64], text[1024];
	const char *fields;
	struct stat image;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	read_text(text, sizeof(text), path);
	fields = behind_name(text);
	if (!fields || sscanf(fields, "%c %*d %*d %*d %*d %*d %*u %llu %*u %*u %*u %*u %*u %*d %*d "
			      "%*d %*d %llu %*d %llu %*u %llu %*u %llu %*u %llu", &status->state,
			      &faults, &threads, &start, &pages, &code, &stack) != 7)
		return -1;
	/* Only its first thread has ended. */
	if (status->state == 'Z' && threads > 1)
		status->state = 'S';
	status->minor_faults = faults;
	status->resident_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	if (stat(path, &image) < 0)
		memset(&image, 0, sizeof(image));
	/* A child that was forked has its parent's image. */
	status->image = (image.st_ino * 31 + image.st_dev) * 31 + code * 7 + stack;
	return 0;
}

/* The kernel's numbers of a process's clocks; they are part of its interface. */
enum { CLOCK_USER = 1, CLOCK_ALL = 2 };

static uint64_t process_clock(pid_t pid, int kind)
{
	const clockid_t clock = (clockid_t)(~(unsigned)pid << 3 | (unsigned)kind);
	struct timespec time;

	if (clock_gettime(clock, &time) < 0)
		return 0;
	return (uint64_t)time.tv_sec * UINT64_C(1000000000) + (uint64_t)time.tv_nsec;
}

uint64_t process_cpu_ns(pid_t pid)
{
	return process_clock(pid, CLOCK_ALL);
}

uint64_t process_user_ns(pid_t pid)
{
	return process_clock(pid, CLOCK_USER);
}

static struct process *find(const struct processes *processes, pid_t pid)
{
	for (size_t i = 0; i < processes->count; i++)
		if (processes->all[i]->pid == pid && !processes->all[i]->gone)
			return processes->all[i];
	return NULL;
}

static struct process *add(struct processes *processes, pid_t pid)
{
	struct process_status status;
	struct process *process, **all;

	if (process_status(pid, &status) < 0 || status.state == 'Z' || status.state == 'X')
		return NULL;
	if (processes->count == processes->capacity) {
		size_t capacity = processes->capacity ? 2 * processes->capacity : 8;

		all = capacity > MOST_PROCESSES ? NULL :
			reallocarray(processes->all, capacity, sizeof(*all));
		if (!all)
			return NULL;
		processes->all = all;
		processes->capacity = capacity;
	}
	process = calloc(1, sizeof(*process));
	if (!process)
		return NULL;
	process->pid = pid;
	process->image = status.image;
	process->huge_bytes = UINT64_MAX;
	processes->all[processes->count++] = process;
	return process;
}

int processes_open(struct processes *processes, pid_t pid)
{
	struct process *process = add(processes, pid);

	if (!process) {
		errno = ESRCH;
		return -1;
	}
	process->cpu_ns = processes->before_ns = process_cpu_ns(pid);
	process->user_ns = process_user_ns(pid);
	processes_look(processes, true);
	return 0;
}

void processes_close(struct processes *processes)
{
	for (size_t i = 0; i < processes->count; i++)
		free(processes->all[i]);
	free(processes->all);
	processes->all = NULL;
	processes->count = processes->capacity = 0;
}

/* Calls `each` with every thread of the process. */
static uint64_t for_threads(pid_t pid, void (*each)(pid_t pid, pid_t tid, void *context),
			    void *context)
{
	struct dirent *entry;
	uint64_t threads = 0;
	char path[64];
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	folder = opendir(path);
	while (folder && (entry = readdir(folder)) != NULL) {
		long tid = strtol(entry->d_name, NULL, 10);

		if (tid <= 0)
			continue;
		threads++;
		each(pid, (pid_t)tid, context);
	}
	if (folder)
		closedir(folder);
	return threads;
}

static void add_children_of(pid_t pid, pid_t tid, void *context)
{
	struct processes *processes = context;
	char path[64];
	FILE *file;
	int child;

	/* The kernel gives a page at a time: stdio reads them all. */
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)tid);
	file = fopen(path, "re");
	while (file && fscanf(file, "%d", &child) == 1)
		if (!find(processes, (pid_t)child) &&
		    !processes->is_copy(processes->context, (pid_t)child))
			add(processes, (pid_t)child);
	if (file)
		fclose(file);
}

/* Shorter times say nothing. */
#define RATE_NS 1000000u

static void note_faults(struct process *process, uint64_t faults)
{
	const uint64_t passed = process->cpu_ns - process->faults_cpu_ns;

	if (passed < RATE_NS)
		return;
	process->fault_rate = (double)(faults - process->faults) / (double)passed;
	process->faults = faults;
	process->faults_cpu_ns = process->cpu_ns;
}

static void add_time(uint64_t now_ns, uint64_t *process_ns, uint64_t *all_ns)
{
	if (now_ns <= *process_ns)
		return;
	*all_ns += now_ns - *process_ns;
	*process_ns = now_ns;
}

void processes_look(struct processes *processes, bool tree)
{
	struct process_status status;

	/* The children of added processes are looked at, too. */
	for (size_t i = 0; i < processes->count; i++) {
		struct process *process = processes->all[i];

		if (process->gone)
			continue;
		add_time(process_cpu_ns(process->pid), &process->cpu_ns, &processes->cpu_ns);
		add_time(process_user_ns(process->pid), &process->user_ns, &processes->user_ns);
		if (process_status(process->pid, &status) < 0 || status.state == 'Z' ||
		    status.state == 'X') {
			process->gone = true;
			continue;
		}
		process->image = status.image;
		note_faults(process, status.minor_faults);
		if (tree && processes->children)
			for_threads(process->pid, add_children_of, processes);
	}
}

/* PF_IO_WORKER (include/linux/sched.h): a thread of an io_uring, which has no user mode. */
#define IO_WORKER 0x10u

struct draw {
	uint64_t *random;
	uint64_t running;
	pid_t only;
	pid_t process, thread;
};

static void consider(pid_t pid, pid_t tid, void *context)
{
	struct draw *draw = context;
	char path[64], text[512];
	const char *fields;
	unsigned flags;

	if (draw->only && tid != draw->only)
		return;
	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)tid);
	read_text(text, sizeof(text), path);
	fields = behind_name(text);
	if (!fields || sscanf(fields, "R %*d %*d %*d %*d %*d %u", &flags) != 1 ||
	    flags & IO_WORKER)
		return;
	if (budget_random(draw->random, ++draw->running) == 0) {
		draw->process = pid;
		draw->thread = tid;
	}
}

pid_t processes_draw(struct processes *processes, uint64_t *random, struct process **process)
{
	struct draw draw = { .random = random, .only = processes->only };
	uint64_t threads = 0;

	for (size_t i = 0; i < processes->count; i++)
		if (!processes->all[i]->gone)
			threads += for_threads(processes->all[i]->pid, consider, &draw);
	if (threads > processes->threads_seen)
		processes->threads_seen = threads;
	*process = draw.thread ? find(processes, draw.process) : NULL;
	return *process ? draw.thread : 0;
}

uint64_t process_huge_bytes(struct process *process, uint64_t now_ns)
{
	uint64_t kilobytes;
	char path[64], line[256];
	FILE *rollup;

	if (process->huge_looked_ns && now_ns - process->huge_looked_ns < HUGE_LOOK_NS)
		return process->huge_bytes;
	process->huge_looked_ns = now_ns;
	process->huge_bytes = UINT64_MAX;
	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)process->pid);
	rollup = fopen(path, "re");
	while (rollup && fgets(line, sizeof(line), rollup))
		if (sscanf(line, "AnonHugePages: %" SCNu64, &kilobytes) == 1)
			process->huge_bytes = kilobytes << 10;
	if (rollup)
		fclose(rollup);
	return process->huge_bytes;
}
