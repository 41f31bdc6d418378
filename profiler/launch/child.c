/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a child that cannot go on tells the launcher. */
struct refusal {
	enum child_failure failure;
	int error;
};

/* Does this refusal of one folder of PATH leave hope for the next one? */
static int try_next(int error)
{
	switch (error) {
	case EACCES:
	case ENODEV:
	case ENOENT:
	case ENOTDIR:
	case ESTALE:
	case ETIMEDOUT:
		return 1;
	default:
		return 0;
	}
}

int child_exec(char *const *argv)
{
	const char *path = getenv("PATH");
	const char *name = argv[0];
	char file[PATH_MAX];
	int denied = 0;

	if (!*name) {
		errno = ENOENT;
		return -1;
	}
	if (strchr(name, '/'))
		return execv(name, argv);
	if (!path)
		path = "/bin:/usr/bin";
	for (;;) {
		size_t length = strcspn(path, ":");
		int n = snprintf(file, sizeof(file), "%.*s%s%s", (int)length,
				 path, length ? "/" : "", name);

		if (n < 0 || (size_t)n >= sizeof(file)) {
			errno = ENAMETOOLONG;
		} else {
			execv(file, argv);
			if (!try_next(errno))
				return -1;
			denied |= errno == EACCES;
			errno = denied ? EACCES : ENOENT;
		}
		if (!path[length])
			return -1;
		path += length + 1;
	}
}

static int prepare(const struct child_plan *plan, pid_t launcher)
{
	if (plan->user && user_become(plan->user) < 0)
		return -1;
	/*
	 * After user_become(), which clears it.  A launcher that is killed
	 * cannot forward anything, and a program that nobody times or limits
	 * any more must not run on.
	 */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		return -1;
	if (getppid() != launcher) {
		errno = ESRCH;
		return -1;
	}
	if (plan->stdout_fd >= 0 && dup2(plan->stdout_fd, STDOUT_FILENO) < 0)
		return -1;
	if (plan->stderr_fd >= 0 && dup2(plan->stderr_fd, STDERR_FILENO) < 0)
		return -1;
	if (sigaction(SIGCHLD, plan->on_child, NULL) < 0)
		return -1;
	return sigprocmask(SIG_SETMASK, plan->mask, NULL);
}

static void run_child(const struct child_plan *plan, pid_t launcher, int report)
	__attribute__((noreturn));

static void run_child(const struct child_plan *plan, pid_t launcher, int report)
{
	struct refusal refusal = { .failure = CHILD_NOT_PREPARED };

	if (prepare(plan, launcher) == 0) {
		refusal.failure = CHILD_NOT_EXECUTED;
		child_exec(plan->argv);
	}
	refusal.error = errno;
	/* If even this fails, the launcher sees a program that exited with 125. */
	if (write(report, &refusal, sizeof(refusal)) < 0)
		_exit(125);
	_exit(127);
}

/* The report's descriptor closes itself when execve() succeeds. */
static int started(int report, struct refusal *refusal)
{
	ssize_t n;

	do
		n = read(report, refusal, sizeof(*refusal));
	while (n < 0 && errno == EINTR);
	return n != (ssize_t)sizeof(*refusal);
}

int child_start(const struct child_plan *plan, pid_t *pid,
		enum child_failure *failure)
{
	pid_t launcher = getpid();
	struct refusal refusal;
	int report[2];
	int error;

	*failure = CHILD_NOT_PREPARED;
	if (pipe2(report, O_CLOEXEC) < 0)
		return -1;
	*pid = fork();
	if (*pid < 0) {
		error = errno;
		close(report[0]);
		close(report[1]);
		errno = error;
		return -1;
	}
	if (*pid == 0)
		run_child(plan, launcher, report[1]);
	close(report[1]);
	if (started(report[0], &refusal)) {
		close(report[0]);
		return 0;
	}
	close(report[0]);
	while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
		;
	*failure = refusal.failure;
	errno = refusal.error;
	return -1;
}
