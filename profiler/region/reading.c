/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "reading.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "clock.h"

/* The clocks of another process, as the kernel's posix-timers.h numbers them. */
enum clock_of_process { TICKED_CPU, TICKED_USER, EXACT_CPU };

static int read_clock(uint64_t *ns, pid_t pid, enum clock_of_process which)
{
	struct timespec time;
	clockid_t id = (clockid_t)((~(unsigned)pid << 3) | (unsigned)which);

	if (clock_gettime(id, &time) < 0)
		return -1;
	*ns = (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
	return 0;
}

static int read_faults(struct reading *reading, pid_t pid)
{
	char path[64], text[1024], *after;
	FILE *file;
	size_t n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return -1;
	n = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[n] = '\0';
	/* The name before may have blanks and brackets. */
	after = strrchr(text, ')');
	return after && sscanf(after + 1, " %*c %*s %*s %*s %*s %*s %*s %" SCNu64 " %*s %" SCNu64,
			       &reading->minor_faults, &reading->major_faults) == 2 ? 0 : -1;
}

int reading_take(struct reading *reading, pid_t pid)
{
	uint64_t cpu, ticked, user;

	if (read_clock(&cpu, pid, EXACT_CPU) < 0 || read_clock(&ticked, pid, TICKED_CPU) < 0 ||
	    read_clock(&user, pid, TICKED_USER) < 0 || read_faults(reading, pid) < 0)
		return -1;
	reading->wall_ns = clock_ns();
	/* Divided between the modes as the kernel does it for getrusage(): by its ticks. */
	reading->user_ns = ticked ? (uint64_t)((double)cpu * (double)user / (double)ticked) : cpu;
	if (reading->user_ns > cpu)
		reading->user_ns = cpu;
	reading->system_ns = cpu - reading->user_ns;
	return 0;
}

/* Divided anew each time, one mode's time may seem to go back. */
static uint64_t since(uint64_t from, uint64_t to)
{
	return to > from ? to - from : 0;
}

void reading_add(struct reading *sum, const struct reading *from, const struct reading *to)
{
	sum->wall_ns += since(from->wall_ns, to->wall_ns);
	sum->user_ns += since(from->user_ns, to->user_ns);
	sum->system_ns += since(from->system_ns, to->system_ns);
	sum->minor_faults += since(from->minor_faults, to->minor_faults);
	sum->major_faults += since(from->major_faults, to->major_faults);
}
