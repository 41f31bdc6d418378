/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "thread_facts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BIT(signal) (UINT64_C(1) << ((signal) - 1))

static ssize_t read_file(const char *path, char *text, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (fd < 0)
		return -1;
	length = read(fd, text, size - 1);
	close(fd);
	if (length >= 0)
		text[length] = '\0';
	return length;
}

/* Of "Key:\tvalue": the value, or an empty string.  The name of a program has no line break. */
static const char *value_of(const char *text, const char *key)
{
	const char *at = strstr(text, key);

	return at ? at + strlen(key) : "";
}

static bool line_has(const char *line, const char *word)
{
	const char *at = strstr(line, word);

	return at && !memchr(line, '\n', (size_t)(at - line));
}

/* Of "1234\t1": the process's PID in its own namespace. */
static bool ends_with_1(const char *line)
{
	const char *end = strchr(line, '\n');

	return end && end - line >= 2 && end[-1] == '1' && (end[-2] == '\t' || end[-2] == ' ');
}

static unsigned count_words(const char *text)
{
	unsigned words = 0;

	for (; *text && *text != '\n'; text++)
		if (*text == '\t')
			words++;
	return words;
}

int thread_facts_read(pid_t process, pid_t thread, struct thread_facts *facts)
{
	char path[64], text[16384];
	const char *state;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", process, thread);
	if (read_file(path, text, sizeof(text)) < 0) {
		if (errno == ENOENT)
			errno = ESRCH;
		return -1;
	}
	memset(facts, 0, sizeof(*facts));
	state = value_of(text, "\nState:\t");
	facts->state = *state;
	facts->tracer = (pid_t)strtol(value_of(text, "\nTracerPid:"), NULL, 10);
	facts->seccomp = (unsigned)strtoul(value_of(text, "\nSeccomp:"), NULL, 10);
	facts->namespaces = count_words(value_of(text, "\nNSpid:"));
	facts->is_init = ends_with_1(value_of(text, "\nNStgid:"));
	facts->pending = strtoull(value_of(text, "\nSigPnd:"), NULL, 16);
	facts->shared_pending = strtoull(value_of(text, "\nShdPnd:"), NULL, 16);
	facts->blocked = strtoull(value_of(text, "\nSigBlk:"), NULL, 16);
	facts->ignored = strtoull(value_of(text, "\nSigIgn:"), NULL, 16);
	facts->caught = strtoull(value_of(text, "\nSigCgt:"), NULL, 16);
	facts->resident_bytes = strtoull(value_of(text, "\nVmRSS:"), NULL, 10) << 10;
	facts->hugetlb_bytes = strtoull(value_of(text, "\nHugetlbPages:"), NULL, 10) << 10;
	facts->shadow_stack = line_has(value_of(text, "\nx86_Thread_features:"), "shstk");
	return 0;
}

bool thread_facts_interrupted(const struct thread_facts *facts, uint64_t mask)
{
	const uint64_t harmless = BIT(SIGCHLD) | BIT(SIGCONT) | BIT(SIGURG) | BIT(SIGWINCH);
	uint64_t ignored = facts->ignored | (harmless & ~facts->caught);

	return ((facts->pending | facts->shared_pending) & ~mask & ~ignored) != 0;
}
