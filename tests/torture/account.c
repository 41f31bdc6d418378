/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does a process look to itself as it did before? */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "torture.h"

#define MOST_TEXT (1u << 20)

/* What is read: no memory is allocated in between, which would change the mappings. */
struct account {
	char maps[MOST_TEXT], files[MOST_TEXT], status[MOST_TEXT];
	char maps_after[MOST_TEXT], files_after[MOST_TEXT], status_after[MOST_TEXT];
	int dumpable, death_signal;
	bool childless;
};

static struct account only;

static void read_whole(const char *path, char *text)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);
	size_t used = 0;
	ssize_t got;

	while (file >= 0 && (got = read(file, text + used, MOST_TEXT - 1 - used)) > 0)
		used += (size_t)got;
	text[used] = '\0';
	if (file >= 0)
		close(file);
}

/*
 * Without what changes by itself: mappings that have no file, since threads' stacks and heaps come
 * and go, and the stack's size.
 */
static void read_maps(char *text)
{
	char *from = text, *to = text, *past;

	read_whole("/proc/self/maps", text);
	for (; *from; from = past) {
		char *line_end = strchr(from, '\n');
		size_t bytes;

		past = line_end ? line_end + 1 : from + strlen(from);
		bytes = (size_t)(past - from);
		if (!memchr(from, '/', bytes) && !memmem(from, bytes, "[v", 2))
			continue;
		memmove(to, from, bytes);
		to += bytes;
	}
	*to = '\0';
}

static void read_files(char *text)
{
	size_t used = 0;
	char path[64], target[512];

	for (int i = 0; i < 1024; i++) {
		ssize_t got;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", i);
		got = readlink(path, target, sizeof(target));
		if (got <= 0)
			continue;
		used += (size_t)snprintf(text + used, MOST_TEXT - used, "%d %.*s %x\n", i, (int)got,
					 target,
					 (unsigned)fcntl(i, F_GETFD));
	}
}

/* What /proc/self/status has of these. */
static const char *const kept[] = {
	"Name:", "Umask:", "TracerPid:", "Uid:", "Gid:", "Threads:", "SigPnd:", "ShdPnd:",
	"SigBlk:", "SigIgn:", "SigCgt:", "CapEff:", "NoNewPrivs:", "Seccomp:", "VmLck:", "VmPin:",
	"Cpus_allowed:", "THP_enabled:", "x86_Thread_features:",
};

static void read_status(char *text)
{
	static char whole[MOST_TEXT];
	size_t used = 0;
	char *place, *line;

	read_whole("/proc/self/status", whole);
	for (line = strtok_r(whole, "\n", &place); line; line = strtok_r(NULL, "\n", &place))
		for (size_t i = 0; i < sizeof(kept) / sizeof(*kept); i++)
			if (!strncmp(line, kept[i], strlen(kept[i])))
				used += (size_t)snprintf(text + used, MOST_TEXT - used, "%s\n",
							 line);
	read_whole("/proc/self/oom_score_adj", whole);
	used += (size_t)snprintf(text + used, MOST_TEXT - used, "oom_score_adj: %s", whole);
	read_whole("/proc/self/comm", whole);
	snprintf(text + used, MOST_TEXT - used, "comm: %s", whole);
}

static void *nothing(void *context)
{
	return context;
}

struct account *account_begin(bool childless)
{
	pthread_t first;

	/* The C library's own signals are caught from the first thread on. */
	if (!pthread_create(&first, NULL, nothing, NULL))
		pthread_join(first, NULL);
	torture_close_all();
	only.childless = childless;
	prctl(PR_GET_PDEATHSIG, &only.death_signal);
	only.dumpable = prctl(PR_GET_DUMPABLE);
	/* Twice: what comes into being by reading is there the second time. */
	for (int i = 0; i < 2; i++) {
		read_files(only.files);
		read_status(only.status);
		read_maps(only.maps);
	}
	/* While it is copied, or its calls are recorded, it is traced: its threads may see that. */
	for (int i = 0; i < 2000 && !strstr(only.status, "TracerPid:\t0\n"); i++) {
		torture_sleep_ms(1);
		read_status(only.status);
	}
	return &only;
}

/* The first line that differs. */
static const char *difference(const char *before, const char *after)
{
	while (*before && *before == *after) {
		const char *end = strchr(before, '\n');
		size_t bytes = end ? (size_t)(end - before) + 1 : strlen(before);

		if (strncmp(before, after, bytes))
			break;
		before += bytes;
		after += bytes;
	}
	if (!*before && !*after)
		return NULL;
	return torture_wrong("was \"%.*s\", is \"%.*s\"", (int)strcspn(before, "\n"), before,
			     (int)strcspn(after, "\n"), after);
}

/* NULL if a process that had no child has none of their processor time and memory either. */
static const char *childless(void)
{
	struct rusage usage;

	getrusage(RUSAGE_CHILDREN, &usage);
	if (!usage.ru_utime.tv_sec && !usage.ru_utime.tv_usec && !usage.ru_stime.tv_sec &&
	    !usage.ru_maxrss)
		return NULL;
	return torture_wrong("%ld.%06ld s, %ld KiB", (long)usage.ru_utime.tv_sec,
			     (long)usage.ru_utime.tv_usec,
			     usage.ru_maxrss);
}

int account_end(struct account *account)
{
	int failed = 0, signal_now = 0, status = 0;

	read_files(account->files_after);
	read_maps(account->maps_after);
	/* A thread that was joined is still counted for a moment. */
	for (int i = 0; i < 100; i++) {
		read_status(account->status_after);
		if (!strcmp(account->status, account->status_after))
			break;
		torture_sleep_ms(10);
	}
	failed += torture_line("descriptors", difference(account->files, account->files_after));
	failed += torture_line("status", difference(account->status, account->status_after));
	failed += torture_line("mappings", difference(account->maps, account->maps_after));
	prctl(PR_GET_PDEATHSIG, &signal_now);
	failed += torture_line("death signal", torture_result(signal_now, account->death_signal,
							      0));
	failed += torture_line("dumpable", torture_result(prctl(PR_GET_DUMPABLE), account->dumpable,
							  0));
	failed += torture_line("no child is left",
			       torture_result(waitpid(-1, &status, WNOHANG | __WALL), -1, ECHILD));
	if (account->childless)
		failed += torture_line("no child's resources", childless());
	return failed;
}
