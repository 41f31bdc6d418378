/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Programs to be copied, and the injector that does it. */
#ifndef TLBCOST_TEST_INJECTED_H
#define TLBCOST_TEST_INJECTED_H

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "injector.h"

#define PATIENCE_MS 2000u

struct injected {
	pid_t injector, program;
	int socket;
	int from_program;	/* what it prints */
};

/* The injector is built next to the folder of this test. */
static inline int injected_start_injector(struct injected *injected)
{
	char path[PATH_MAX];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (length < 0)
		return -1;
	path[length] = '\0';
	for (unsigned i = 0; i < 3; i++)
		*strrchr(path, '/') = '\0';
	strncat(path, "/libexec/tlbcost-injector", sizeof(path) - strlen(path) - 1);
	injected->socket = injector_start(path, &injected->injector);
	return injected->socket < 0 ? -1 : 0;
}

/* Returns 0 once the program runs. */
static inline int injected_start(struct injected *injected, void (*program)(int output))
{
	int channel[2];

	*injected = (struct injected){ .socket = -1 };
	if (injected_start_injector(injected) < 0 || pipe(channel) < 0)
		return -1;
	injected->program = fork();
	if (injected->program == 0) {
		close(channel[0]);
		close(injected->socket);
		program(channel[1]);
		_exit(0);
	}
	close(channel[1]);
	injected->from_program = channel[0];
	return injected->program < 0 ? -1 : 0;
}

static inline void injected_nap(unsigned us)
{
	const struct timespec time = { us / 1000000u, (long)(us % 1000000u) * 1000 };

	nanosleep(&time, NULL);
}

static inline struct injector_request injected_request(const struct injected *injected)
{
	return (struct injector_request){
		.task = INJECT_COPY, .program = injected->program, .thread = injected->program,
		.sibling = true, .copies = 1, .wait_ms = PATIENCE_MS, .tracer = getpid(),
	};
}

/* Ends both.  Returns the wait status of the program. */
static inline int injected_end(struct injected *injected)
{
	int status = -1;

	while (waitpid(injected->program, &status, 0) < 0 && errno == EINTR)
		;
	close(injected->socket);
	waitpid(injected->injector, NULL, 0);
	close(injected->from_program);
	return status;
}

#endif
