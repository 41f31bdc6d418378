/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "headroom.h"

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sysfile.h"

/* The translator's area in a copy, and what its worker keeps. */
#define OUR_BYTES (UINT64_C(256) << 20)
/* At least this many processes and threads are left to the program: a copy has arms. */
#define SPARE_PIDS 32u

/* Everything that a copy shares with the program may be written to while it lives. */
static bool lacks_memory(pid_t pid, uint64_t resident_bytes)
{
	struct memory_room room;
	char process[16];

	/* A copy is in the cgroups of its program, which may be a container's. */
	snprintf(process, sizeof(process), "%d", (int)pid);
	return sysfile_memory_room_of(&room, process) == 0 && room.bytes < resident_bytes + OUR_BYTES;
}

static bool lacks_commit(pid_t pid)
{
	uint64_t mode, limit, promised, pages = 0;
	unsigned long long data;
	FILE *file;

	if (sysfile_number(&mode, "/proc/sys/vm/overcommit_memory") < 0 || mode != 2)
		return false;
	if (sysfile_meminfo("CommitLimit", &limit) < 0 ||
	    sysfile_meminfo("Committed_AS", &promised) < 0)
		return false;
	file = sysfile_open("/proc/%d/statm", (int)pid);
	if (file && fscanf(file, "%*u %*u %*u %*u %*u %llu", &data) == 1)
		pages = data;
	if (file)
		fclose(file);
	return promised + pages * (uint64_t)sysconf(_SC_PAGESIZE) + OUR_BYTES > limit;
}

/* Threads of all users: at least as many as this one has. */
static uint64_t threads_of_all(void)
{
	unsigned long long threads = 0;
	char line[128];

	if (sysfile_line(line, sizeof(line), "/proc/loadavg") < 0 ||
	    sscanf(line, "%*s %*s %*s %*u/%llu", &threads) != 1)
		return 0;
	return threads;
}

/* Of a process: its user, and its threads.  Returns 0; or -1, and there is none. */
static int read_status(pid_t pid, unsigned *uid, uint64_t *threads)
{
	FILE *file = sysfile_open("/proc/%d/status", (int)pid);
	unsigned long long number;
	unsigned found = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file)) {
		found += sscanf(line, "Uid: %u", uid) == 1;
		if (sscanf(line, "Threads: %llu", &number) == 1) {
			*threads = number;
			found++;
		}
	}
	if (file)
		fclose(file);
	return found == 2 ? 0 : -1;
}

static uint64_t threads_of_user(unsigned uid)
{
	const struct dirent *entry;
	uint64_t all = 0;
	DIR *folder = opendir("/proc");

	while (folder && (entry = readdir(folder)) != NULL) {
		const pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		uint64_t threads;
		unsigned owner;

		if (pid > 0 && read_status(pid, &owner, &threads) == 0 && owner == uid)
			all += threads;
	}
	if (folder)
		closedir(folder);
	return all;
}

/* The limit is the program's user's, whoever we are; root has none. */
static bool lacks_processes(pid_t pid)
{
	unsigned long long limit;
	uint64_t threads;
	unsigned uid;
	char line[256];
	bool lacks = false;
	FILE *file = sysfile_open("/proc/%d/limits", (int)pid);

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "Max processes %llu", &limit) == 1 &&
		    threads_of_all() + SPARE_PIDS > limit)
			lacks = read_status(pid, &uid, &threads) == 0 && uid &&
				threads_of_user(uid) + SPARE_PIDS > limit;
	if (file)
		fclose(file);
	return lacks;
}

/* A limit of the program's cgroup, or of one above it. */
static bool lacks_pids_in(char *folder)
{
	uint64_t most, now;

	for (;;) {
		char *slash;

		if (sysfile_number(&most, "/sys/fs/cgroup%s/pids.max", folder) == 0 &&
		    sysfile_number(&now, "/sys/fs/cgroup%s/pids.current", folder) == 0 &&
		    now + SPARE_PIDS > most)
			return true;
		slash = strrchr(folder, '/');
		if (!slash)
			return false;
		*slash = '\0';
	}
}

static bool lacks_pids(pid_t pid)
{
	char line[4096];
	bool lacks = false;
	FILE *file = sysfile_open("/proc/%d/cgroup", (int)pid);

	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strncmp(line, "0::/", 4))
			lacks = lacks_pids_in(line + 3);
	}
	if (file)
		fclose(file);
	return lacks;
}

const char *headroom_lacks(pid_t pid, uint64_t resident_bytes)
{
	if (lacks_memory(pid, resident_bytes))
		return "refused-memory";
	if (lacks_commit(pid))
		return "refused-memory";
	if (lacks_processes(pid) || lacks_pids(pid))
		return "refused-processes";
	return NULL;
}
