/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Does a program with threads become another, now by its first thread, now by another one, and stay
 * the same process?
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "torture.h"

#define THREADS 3

static char **arguments;

static void *compute(void *context)
{
	for (;;)
		torture_spin(100000);
	return context;
}

static void *block(void *context)
{
	for (;;)
		pause();
	return context;
}

static void *become(void *context)
{
	execv("/proc/self/exe", arguments);
	torture_line("execv", strerrorname_np(errno));
	_exit(1);
	return context;
}

static volatile sig_atomic_t handled;

static void handle(int signal)
{
	handled += signal == SIGUSR1;
}

int main(int argc, char **argv)
{
	static char round_text[16], pid_text[16];
	char *next[] = { argv[0], round_text, pid_text, NULL };
	int round = argc > 1 ? atoi(argv[1]) : 0;
	pthread_t thread;

	if (argc > 2 && atoi(argv[2]) != getpid())
		return torture_line("process", "is another");
	/* Nobody has kept hold of it, who would have to let the signal through. */
	signal(SIGUSR1, handle);
	raise(SIGUSR1);
	if (!handled)
		return torture_line("a signal", "did not come");
	/* Its time begins again each time. */
	if (getenv("TORTURE_UNTIL") ? !torture_more() : round >= 5)
		return torture_line("a program that becomes another", NULL);
	arguments = next;
	snprintf(round_text, sizeof(round_text), "%d", round + 1);
	snprintf(pid_text, sizeof(pid_text), "%d", getpid());
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread, NULL, i ? compute : block, NULL))
			return torture_line("threads", "cannot be made");
	torture_spin(5000000);
	if (round % 2)
		become(NULL);
	if (pthread_create(&thread, NULL, become, NULL))
		return torture_line("threads", "cannot be made");
	pthread_join(thread, NULL);
	return 1;
}
