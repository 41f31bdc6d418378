/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A program is started in much less. */
#define STOPPED_MS 100

/* What a child that cannot continue reports to the launcher. */
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
	/* Without Yama this call fails, and is not needed. */
	if (plan->traced)
		prctl(PR_SET_PTRACER, (unsigned long)launcher, 0, 0, 0);
	if (plan->files && setrlimit(RLIMIT_NOFILE, plan->files) < 0)
		return -1;
	if (plan->stdout_fd >= 0 && dup2(plan->stdout_fd, STDOUT_FILENO) < 0)
		return -1;
	if (plan->stderr_fd >= 0 && dup2(plan->stderr_fd, STDERR_FILENO) < 0)
		return -1;
	if (sigaction(SIGCHLD, plan->on_child, NULL) < 0)
		return -1;
	return sigprocmask(SIG_SETMASK, plan->mask, NULL);
}

/* Wait for one byte.  Its end without one is that of the launcher, or its refusal. */
static int released(int gate)
{
	char byte;
	ssize_t n;

	do
		n = read(gate, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n == 0)
		errno = ECANCELED;
	return n == 1 ? 0 : -1;
}

static void run_child(const struct child_plan *plan, pid_t launcher, int report,
		      const int gate[2]) __attribute__((noreturn));

static void run_child(const struct child_plan *plan, pid_t launcher, int report,
		      const int gate[2])
{
	struct refusal refusal = { .failure = CHILD_NOT_PREPARED };

	/* Else the gate would never close: this process itself held it open. */
	close(gate[1]);
	/*
	 * Before it becomes another user: the kernel then still sees a process
	 * of the launcher's own, which it may count.
	 */
	if ((!plan->attach || released(gate[0]) == 0) &&
	    prepare(plan, launcher) == 0) {
		refusal.failure = CHILD_NOT_EXECUTED;
		child_exec(plan->argv);
	}
	refusal.error = errno;
	/* If even this fails, the launcher sees a program that exited with 125. */
	if (write(report, &refusal, sizeof(refusal)) < 0)
		_exit(125);
	_exit(127);
}

/*
 * The report's descriptor closes itself when execve() succeeds.  A stopped child does not
 * come to that; it is killed if we are signalled to end.
 */
static int started(int report, pid_t pid, struct refusal *refusal)
{
	struct pollfd ready = { report, POLLIN, 0 };
	sigset_t pending;
	ssize_t n;

	while (poll(&ready, 1, STOPPED_MS) == 0)
		if (sigpending(&pending) == 0 && sigismember(&pending, SIGTERM) == 1)
			kill(pid, SIGKILL);
	do
		n = read(report, refusal, sizeof(*refusal));
	while (n < 0 && errno == EINTR);
	return n != (ssize_t)sizeof(*refusal);
}

static int open_channels(int report[2], int gate[2])
{
	int error;

	if (pipe2(report, O_CLOEXEC) < 0)
		return -1;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, gate) == 0)
		return 0;
	error = errno;
	close(report[0]);
	close(report[1]);
	errno = error;
	return -1;
}

/* Open the gate, or leave it closed.  Returns 0, or the errno of the refusal. */
static int release(const struct child_plan *plan, pid_t pid, int gate)
{
	if (!plan->attach)
		return 0;
	if (plan->attach(pid, plan->context) < 0)
		return errno;
	/* A child that was killed before that leaves no reader: its status says so. */
	return send(gate, "", 1, MSG_NOSIGNAL) < 0 && errno != EPIPE ? errno : 0;
}

int child_start(const struct child_plan *plan, pid_t *pid,
		enum child_failure *failure)
{
	pid_t launcher = getpid();
	struct refusal refusal;
	int report[2], gate[2];
	int error, silent;

	*failure = CHILD_NOT_PREPARED;
	if (open_channels(report, gate) < 0)
		return -1;
	*pid = fork();
	if (*pid == 0)
		run_child(plan, launcher, report[1], gate);
	error = *pid < 0 ? errno : release(plan, *pid, gate[1]);
	close(report[1]);
	close(gate[0]);
	close(gate[1]);
	silent = *pid > 0 && started(report[0], *pid, &refusal);
	close(report[0]);
	if (silent && !error)
		return 0;
	while (*pid > 0 && waitpid(*pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (!error) {
		*failure = refusal.failure;
		error = refusal.error;
	}
	errno = error;
	return -1;
}
