/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "held_threads.h"

#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "clock.h"
#include "injector.h"

/* If more run at once, those beyond may write to shared memory. */
#define MOST_HELD 256u
/* A running thread stops within this time, or later, and is released then. */
#define WAIT_MS 5u

static struct thread_stop held[MOST_HELD];
static unsigned count;
static uint64_t since_ns;

void held_threads_add(const struct thread_stop *stop)
{
	struct thread_stop own = *stop;

	if (count == MOST_HELD) {
		thread_stop_detach(&own, 0);
		return;
	}
	if (!count)
		since_ns = clock_ns();
	held[count++] = own;
}

static void hold(pid_t program, pid_t thread)
{
	struct thread_stop stop;
	int32_t error;

	if (thread_stop_begin(&stop, program, thread, false, WAIT_MS, &error) != INJECTED)
		return;
	/* At once: if we are killed, it continues by itself. */
	if (thread_stop_restore(&stop) < 0)
		thread_stop_detach(&stop, 0);
	else
		held_threads_add(&stop);
}

void held_threads_stop(pid_t program, pid_t except)
{
	const struct dirent *entry;
	char path[32];
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)program);
	folder = opendir(path);
	if (!folder)
		return;
	while ((entry = readdir(folder)) && count < MOST_HELD - 1) {
		const pid_t thread = (pid_t)strtol(entry->d_name, NULL, 10);

		if (thread > 0 && thread != except)
			hold(program, thread);
	}
	closedir(folder);
}

void held_threads_release(void)
{
	while (count)
		thread_stop_detach(&held[--count], 0);
}

bool held_threads_expire(void)
{
	if (count && clock_ns() - since_ns > INJECTOR_HOLD_MS * UINT64_C(1000000))
		held_threads_release();
	return count > 0;
}
