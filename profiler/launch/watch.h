/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How long did the program run, what did it use, and how did it end? */
#ifndef TLBCOST_LAUNCH_WATCH_H
#define TLBCOST_LAUNCH_WATCH_H

#include <signal.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "tail.h"
#include "waits.h"

/* The launcher's hold on the signals.  Fields are private but the first two. */
struct watch_signals {
	sigset_t mask;			/* as they were before: the program's */
	struct sigaction on_child;
	int fd;				/* SIGCHLD, SIGTERM, SIGHUP and the death of the parent */
	pid_t parent;
};

/* How one run ended. */
struct watch_result {
	uint64_t end_ns;	/* CLOCK_MONOTONIC when the program was reaped */
	int status;		/* as wait() gives it */
	struct rusage usage;	/* of the program and the children it waited for */
	int waited_known;
	uint64_t waited_ns;	/* ready to run, but without a CPU: see waits.h */
};

/* What else is to be done while the program runs. */
struct watch_hook {
	int fd;			/* becomes readable when there is; may be an epoll's; -1: SIGCHLD came */
	/* Returns 0; or -1 with errno, and then the watch ends with it. */
	int (*ready)(void *context);
	void *context;
};

/*
 * Hold back the signals that the launcher deals with, and ask for one (SIGUSR2) when its own
 * parent dies.  Before the program is started.
 * Returns 0, or -1 with errno set.
 */
int watch_prepare(struct watch_signals *signals);

/*
 * Wait for the program.  SIGINT and SIGQUIT are ignored until then, since a
 * terminal sends them to the program as well; SIGTERM and SIGHUP are passed on
 * to it.  When the launcher's parent is dead, the program and all that it started are ended,
 * by SIGKILL after two seconds.
 * stdout_fd and stderr_fd are pipes to drain, or -1; the last of stderr goes
 * to *last_words.  hook may be NULL.  Processes that the program left behind may hold the pipes
 * open: nothing is awaited from them.
 * Returns 0; or -1 with errno, and then the program was killed.
 */
int watch_program(struct watch_signals *signals, pid_t pid, int stdout_fd,
		  int stderr_fd, struct tail *last_words,
		  const struct watch_hook *hook, struct watch_result *result);

/*
 * Wait without a program: until end_fd (a pidfd, or -1) is readable, SIGINT,
 * SIGTERM or SIGHUP comes, or the parent dies.  Returns 0, or -1 with errno.
 */
int watch_others(struct watch_signals *signals, int end_fd,
		 const struct watch_hook *hook);

#endif
