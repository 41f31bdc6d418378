/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How is the program started so that it cannot tell that it is watched? */
#ifndef TLBCOST_LAUNCH_CHILD_H
#define TLBCOST_LAUNCH_CHILD_H

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "user.h"

/* What to start, and how the program's world is to be put back before it runs. */
struct child_plan {
	char *const *argv;
	const struct user_account *user;	/* NULL: run as we are */
	int stdout_fd, stderr_fd;	/* -1: the launcher's own */
	const sigset_t *mask;		/* signal mask of the program */
	const struct sigaction *on_child; /* its disposition of SIGCHLD */
	const struct rlimit *files;	/* its RLIMIT_NOFILE; NULL: the launcher's */
	int traced;			/* by children of the launcher: allow that where Yama restricts it */
	/*
	 * Called in the launcher while the program's process exists but waits,
	 * so that counters are there before its first instruction; may be NULL.
	 * Returns 0; or -1 with errno, and then the program does not start.
	 */
	int (*attach)(pid_t pid, void *context);
	void *context;
};

/* Why a program did not start. */
enum child_failure {
	CHILD_NOT_EXECUTED,	/* execve() refused it; nothing of it ran */
	CHILD_NOT_PREPARED,	/* the launcher could not fork or set it up */
};

/*
 * Replace the calling process by argv[0], searched in PATH as execvp() does,
 * except that a file without a known format is refused with ENOEXEC and not
 * handed to a shell: the simulator would then count the shell.
 * Returns only on failure: -1 with errno of the most telling refusal (EACCES
 * before ENOENT).
 */
int child_exec(char *const *argv);

/*
 * Fork and execute.  Returns 0 with *pid set once the program runs; -1 with
 * errno and *failure set when it does not, and then no child is left.
 * The caller blocks its signals first and keeps SIGCHLD from being ignored;
 * descriptors that are not the program's must be close-on-exec.
 */
int child_start(const struct child_plan *plan, pid_t *pid,
		enum child_failure *failure);

#endif
