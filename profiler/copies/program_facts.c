/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "program_facts.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"

#define REMEMBERED 32u
/* A program opens its rings and fault handlers when it starts. */
#define LOOK_NS 1000000000u
/* The kernel looks at all of its pages for this. */
#define MEASURE_NS 10000000000u

static struct program_facts remembered[REMEMBERED];
static unsigned next_remembered;

/* A ring's requests belong to the program alone; a userfaultfd handler sees each fork. */
static enum injector_refusal look_at_files(pid_t process, pid_t thread)
{
	enum injector_refusal refusal = INJECTED;
	char path[64], target[64];
	struct dirent *entry;
	ssize_t length;
	DIR *files;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd", process, thread);
	files = opendir(path);
	if (!files)
		return errno == EACCES || errno == EPERM ? REFUSED_PERMISSION : REFUSED_GONE;
	while (refusal == INJECTED && (entry = readdir(files)) != NULL) {
		length = readlinkat(dirfd(files), entry->d_name, target, sizeof(target) - 1);
		if (length < 0)
			continue;
		target[length] = '\0';
		if (strcmp(target, "anon_inode:[io_uring]") == 0)
			refusal = REFUSED_IO_URING;
		else if (strcmp(target, "anon_inode:[userfaultfd]") == 0)
			refusal = REFUSED_USERFAULTFD;
	}
	closedir(files);
	return refusal;
}

static uint64_t measure_huge(pid_t process, pid_t thread)
{
	uint64_t kilobytes, bytes = UINT64_MAX;
	char path[64], line[256];
	FILE *rollup;

	/* Facts of the process: its first thread may have ended. */
	(void)thread;
	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", process);
	rollup = fopen(path, "re");
	if (!rollup)
		return bytes;
	while (fgets(line, sizeof(line), rollup))
		if (sscanf(line, "AnonHugePages: %" SCNu64, &kilobytes) == 1)
			bytes = kilobytes << 10;
	fclose(rollup);
	return bytes;
}

static struct program_facts *slot_of(pid_t process)
{
	struct program_facts *facts;

	for (unsigned i = 0; i < REMEMBERED; i++)
		if (remembered[i].process == process)
			return &remembered[i];
	facts = &remembered[next_remembered];
	next_remembered = (next_remembered + 1) % REMEMBERED;
	memset(facts, 0, sizeof(*facts));
	facts->process = process;
	return facts;
}

struct program_facts *program_facts_of(pid_t process, pid_t thread)
{
	struct program_facts *facts = slot_of(process);
	uint64_t now = clock_ns();

	if (!facts->looked_ns || now - facts->looked_ns > LOOK_NS) {
		facts->refusal = look_at_files(process, thread);
		/* The end of one thread says nothing about the program. */
		facts->looked_ns = facts->refusal == REFUSED_GONE ? 0 : now;
	}
	if (!facts->measured_ns || now - facts->measured_ns > MEASURE_NS) {
		facts->huge_bytes = measure_huge(process, thread);
		facts->measured_ns = now;
	}
	return facts;
}
