/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does a program see its own children, and those alone? */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "torture.h"

#define CROWD 200

extern char **environ;

static bool adopts;
static volatile sig_atomic_t n_reported, reported[CROWD + 8];

static void handle_child(int signal, siginfo_t *about, void *context)
{
	(void)signal;
	(void)context;
	if (n_reported < (sig_atomic_t)(sizeof(reported) / sizeof(*reported)))
		reported[n_reported++] = about->si_pid;
}

/* Every SIGCHLD is about one of these. */
static const char *foreign_report(const pid_t *children, unsigned count)
{
	for (int i = 0; i < n_reported; i++) {
		unsigned each = 0;

		while (each < count && children[each] != reported[i])
			each++;
		if (each == count)
			return torture_wrong("SIGCHLD about %d, who is no child",
					     (int)reported[i]);
	}
	n_reported = 0;
	return NULL;
}

/* As many as there are, by waiting for any; each has the exit code that belongs to it. */
static const char *wait_for_all(const pid_t *children, unsigned count)
{
	for (unsigned left = count; left; left--) {
		unsigned each = 0;
		int status = 0;
		pid_t child;

		do
			child = waitpid(-1, &status, 0);
		while (child < 0 && errno == EINTR && n_reported);
		while (each < count && children[each] != child)
			each++;
		if (each == count)
			return child < 0 ? torture_result(child, 1, 0) :
				torture_wrong("%d was waited for, who is no child", child);
		if (status != (int)(each % 100) << 8)
			return torture_wrong("child %u ended with %#x", each, (unsigned)status);
	}
	return foreign_report(children, count);
}

/* Threads would wait for each other's children: one thing after the other. */
static const char *forks_crowd(void)
{
	pid_t children[CROWD];

	for (unsigned i = 0; i < CROWD; i++) {
		children[i] = fork();
		if (!children[i]) {
			torture_spin(20000);
			_exit((int)(i % 100));
		}
		if (children[i] < 0)
			return torture_result(children[i], 1, 0);
	}
	return wait_for_all(children, CROWD);
}

static const char *vforks(void)
{
	pid_t children[5];

	for (unsigned i = 0; i < 5; i++) {
		children[i] = vfork();
		if (!children[i]) {
			torture_spin(2000000);
			_exit((int)i);
		}
	}
	return wait_for_all(children, 5);
}

static const char *spawns(void)
{
	char *const arguments[] = { (char *)(uintptr_t)"true", NULL };
	pid_t children[3];
	int status = 0;

	for (unsigned i = 0; i < 3; i++) {
		int error = posix_spawnp(&children[i], "true", NULL, NULL, arguments, environ);

		if (error)
			return torture_wrong("posix_spawn: %s", strerrorname_np(error));
		if (waitpid(children[i], &status, 0) != children[i] || status)
			return torture_wrong("status %#x, %s", (unsigned)status,
					     strerrorname_np(errno));
	}
	return foreign_report(children, 3);
}

/* A pipe to a shell: its output is whole, and ends when the shell does. */
static const char *reads_pipeline(void)
{
	char line[64] = "";
	FILE *shell = popen("seq 1 20000 | tail -n 1; exit 3", "r");
	char *read_line = shell ? fgets(line, sizeof(line), shell) : NULL;
	int status = shell ? pclose(shell) : -1;

	n_reported = 0;
	if (!read_line || strcmp(line, "20000\n"))
		return torture_wrong("read \"%s\"", line);
	return torture_result(status, 3 << 8, 0);
}

/* Forks that never exec: each continues with the memory that it got. */
static const char *forks_with_memory(void)
{
	static unsigned char memory[4 << 20];
	pid_t children[4];

	for (unsigned i = 0; i < 4; i++) {
		memset(memory, (int)i, sizeof(memory));
		children[i] = fork();
		if (!children[i]) {
			for (unsigned round = 0; round < 4; round++)
				for (size_t at = 0; at < sizeof(memory); at += 512) {
					if (memory[at] != i + round)
						_exit(99);
					memory[at]++;
				}
			_exit((int)i);
		}
	}
	return wait_for_all(children, 4);
}

/* A grandchild asks to be signalled when its parent ends: then, and not before. */
static const char *dies_with_parent(void)
{
	int report[2], status;
	char how = 0;
	pid_t child;

	if (pipe2(report, O_CLOEXEC))
		return torture_result(-1, 0, 0);
	child = fork();
	if (!child) {
		int ready[2];

		if (pipe(ready) || fork()) {
			if (read(ready[0], &how, 1) != 1)
				_exit(1);
			torture_sleep_ms(40);
			_exit(0);
		}
		sigset_t set;
		siginfo_t about;
		struct timespec limit = { 20, 0 };
		pid_t parent = getppid();

		sigemptyset(&set);
		sigaddset(&set, SIGUSR1);
		sigprocmask(SIG_BLOCK, &set, NULL);
		prctl(PR_SET_PDEATHSIG, SIGUSR1);
		if (write(ready[1], "", 1) != 1)
			_exit(1);
		how = 'y';
		if (sigtimedwait(&set, &about, &limit) != SIGUSR1)
			how = 'n';
		else if (getppid() == parent)
			how = 'e';
		if (write(report[1], &how, 1) != 1)
			_exit(1);
		_exit(0);
	}
	close(report[1]);
	if (read(report[0], &how, 1) != 1)
		how = '-';
	close(report[0]);
	if (waitpid(child, &status, 0) != child || status)
		return torture_wrong("status %#x", (unsigned)status);
	/* A subreaper adopts the grandchild. */
	if (adopts && waitpid(-1, &status, 0) < 0)
		return torture_result(-1, 0, 0);
	n_reported = 0;
	return how == 'y' ? NULL : torture_wrong("the signal came: %c", how);
}

/* A child that has a signal of its own, or none, when it ends, as clone() allows. */
static const char *clones(void)
{
	int status = 0;
	pid_t child = (pid_t)syscall(56 /* clone */, 0, NULL, NULL, NULL, 0);

	if (!child) {
		torture_spin(1000000);
		_exit(9);
	}
	if (waitpid(child, &status, 0) != -1 || errno != ECHILD)
		return "found without __WCLONE";
	if (waitpid(child, &status, (int)__WCLONE) != child)
		return "not found with __WCLONE";
	return torture_result(status, 9 << 8, 0);
}

/* A child that is stopped and continues is seen so, once each. */
static const char *stops_child(void)
{
	int status = 0;
	const char *wrong;
	pid_t child = fork();

	if (!child)
		for (;;)
			torture_spin(1000);
	torture_sleep_ms(10);
	kill(child, SIGSTOP);
	wrong = torture_result(waitpid(child, &status, WUNTRACED), child, 0);
	if (!wrong && (!WIFSTOPPED(status) || WSTOPSIG(status) != SIGSTOP))
		wrong = torture_wrong("stopped: %#x", (unsigned)status);
	torture_sleep_ms(20);
	if (!wrong)
		wrong = torture_result(waitpid(child, &status, WNOHANG | WUNTRACED | WCONTINUED), 0,
				       0);
	kill(child, SIGCONT);
	if (!wrong)
		wrong = torture_result(waitpid(child, &status, WCONTINUED), child, 0);
	if (!wrong && !WIFCONTINUED(status))
		wrong = torture_wrong("continued: %#x", (unsigned)status);
	torture_sleep_ms(20);
	if (!wrong)
		wrong = torture_result(waitpid(child, &status, WNOHANG | WUNTRACED | WCONTINUED), 0,
				       0);
	kill(child, SIGKILL);
	if (!wrong)
		wrong = torture_result(waitpid(child, &status, 0), child, 0);
	n_reported = 0;
	return wrong ? wrong : torture_result(status, SIGKILL, 0);
}

static const struct { const char *name; const char *(*once)(void); } all[] = {
	{ "a crowd of children", forks_crowd },
	{ "vfork", vforks },
	{ "posix_spawn", spawns },
	{ "popen", reads_pipeline },
	{ "fork without exec", forks_with_memory },
	{ "a parent's death", dies_with_parent },
	{ "clone without a signal", clones },
	{ "a child that is stopped", stops_child },
};

/* With an argument it is a subreaper. */
int main(int argc, char **argv)
{
	struct sigaction action = {
		.sa_sigaction = handle_child, .sa_flags = SA_SIGINFO | SA_RESTART,
	};
	const char *wrong = NULL;
	struct account *account;
	int failed = 0;
	size_t i;

	(void)argv;
	adopts = argc > 1;
	if (adopts)
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	sigaction(SIGCHLD, &action, NULL);
	account = account_begin(false);
	do
		for (i = 0; !wrong && i < sizeof(all) / sizeof(*all); i++)
			wrong = all[i].once();
	while (!wrong && torture_more());
	/* After a failure there may be children left, which the next would find. */
	if (wrong)
		return torture_line(all[i - 1].name, wrong);
	for (i = 0; i < sizeof(all) / sizeof(*all); i++)
		failed += torture_line(all[i].name, NULL);
	return failed + account_end(account) ? 1 : 0;
}
