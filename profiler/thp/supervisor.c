/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "program.h"
#include "thp_table.h"
#include "traced_calls.h"
#include "tracer.h"

/* When memory is looked at: a short program early, and rarely enough to cost nothing. */
#define FIRST_LOOK_US 2000
#define LATER_LOOK_US 50000

/* What the tracing process says to the one that was started, once. */
struct word {
	int code;		/* to exit with; -1: it failed */
	int error;
	const char *failed;	/* a literal: both have the same */
	int remains;		/* it continues tracing */
};

/* What the program's process says if it does not execute the program. */
struct refusal {
	int of_filter;
	int error;
};

/* As they were before: the program's. */
struct signals {
	sigset_t mask;
	struct sigaction on_child;
};

static volatile sig_atomic_t forward_to, look_due;

static void pass_on(int signal)
{
	int error = errno;

	if (forward_to > 0)
		kill((pid_t)forward_to, signal);
	errno = error;
}

static void look_in(long us)
{
	const struct itimerval once = { { 0, 0 }, { 0, us } };

	setitimer(ITIMER_REAL, &once, NULL);
}

/* waitpid() returns, and the memory is looked at. */
static void tick(int signal)
{
	static volatile long us = FIRST_LOOK_US;
	int error = errno;

	(void)signal;
	look_due = 1;
	us = us * 5 / 4 < LATER_LOOK_US ? us * 5 / 4 : LATER_LOOK_US;
	look_in(us);
	errno = error;
}

/*
 * From here on SIGTERM and SIGHUP go to `pid`.  A terminal sends its signals to
 * the program as well, and it alone decides what they do.
 */
static void handle_signals(pid_t pid)
{
	static const int ignored[] = { SIGINT, SIGQUIT, SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE };
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct sigaction forward = { .sa_handler = pass_on };
	struct sigaction look = { .sa_handler = tick };
	sigset_t none;

	forward_to = pid;
	for (size_t i = 0; i < sizeof(ignored) / sizeof(ignored[0]); i++)
		sigaction(ignored[i], &ignore, NULL);
	sigaction(SIGTERM, &forward, NULL);
	sigaction(SIGHUP, &forward, NULL);
	sigaction(SIGALRM, &look, NULL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void run_program(const struct supervised *what, const struct signals *signals, int gate,
			int report) __attribute__((noreturn));

static void run_program(const struct supervised *what, const struct signals *signals, int gate,
			int report)
{
	struct refusal refusal = { .of_filter = 1 };
	char byte;

	/* Until it is traced.  Without a byte there is no tracer any more. */
	if (read(gate, &byte, 1) != 1)
		_exit(EXIT_OWN_FAILURE);
	/* Whoever started us may have turned them off; here they are asked for. */
	prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
	if ((!what->user || user_become(what->user) == 0) &&
	    traced_calls_install(what->huge_page_bytes) == 0) {
		refusal.of_filter = 0;
		sigaction(SIGCHLD, &signals->on_child, NULL);
		sigprocmask(SIG_SETMASK, &signals->mask, NULL);
		child_exec(what->argv);
	}
	refusal.error = errno;
	if (write(report, &refusal, sizeof(refusal)) < 0)
		_exit(EXIT_OWN_FAILURE);
	_exit(EXIT_NOT_FOUND);
}

/* Returns the end of a pipe that says if the program was not executed, or -1 with errno. */
static int start(const struct supervised *what, const struct signals *signals,
		 struct tracer *tracer)
{
	int gate[2], report[2], error;
	pid_t pid;

	if (pipe2(gate, O_CLOEXEC) < 0 || pipe2(report, O_CLOEXEC) < 0)
		return -1;
	pid = fork();
	if (pid == 0) {
		close(gate[1]);
		run_program(what, signals, gate[0], report[1]);
	}
	close(gate[0]);
	close(report[1]);
	if (pid < 0)
		return -1;
	if (tracer_seize(tracer, pid) < 0 || write(gate[1], "", 1) != 1) {
		error = errno;
		close(gate[1]);
		errno = error;
		return -1;
	}
	close(gate[1]);
	handle_signals(pid);
	return report[0];
}

/* Standard streams and descriptors are the program's: a pipe ends when it closes its end. */
static int let_go_of_files(int *word, int *report)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0 || dup3(*word, 3, O_CLOEXEC) < 0 || dup3(*report, 4, O_CLOEXEC) < 0)
		return -1;
	for (int fd = 0; fd <= 2; fd++)
		if (dup2(null, fd) < 0)
			return -1;
	/* Where the kernel lacks it they stay open, and nothing else. */
	syscall(SYS_close_range, 5u, ~0u, 0u);
	*word = 3;
	*report = 4;
	return 0;
}

static struct word failure(const char *what)
{
	struct word word = { .code = -1, .error = errno, .failed = what };

	return word;
}

/* The program has ended. */
static struct word conclude(const struct tracer *tracer, int status, int report, const char *table)
{
	struct refusal refusal = { 0, 0 };
	struct word word = { .remains = tracer->tasks.count > 0 };

	if (read(report, &refusal, sizeof(refusal)) < 0)
		return failure("cannot trace the program");
	if (refusal.of_filter) {
		errno = refusal.error;
		return failure("cannot filter the program's system calls");
	}
	if (thp_table_write(table, tracer, status, refusal.error) < 0)
		return failure(table);
	if (refusal.error)
		word.code = refusal.error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
	else if (WIFEXITED(status))
		word.code = WEXITSTATUS(status);
	else
		word.code = EXIT_SIGNAL + WTERMSIG(status);
	return word;
}

static struct word trace(const struct supervised *what, const struct signals *signals,
			 struct tracer *tracer, int *out)
{
	int status, rc, report = start(what, signals, tracer);

	if (report < 0)
		return failure("cannot trace the program");
	if (let_go_of_files(out, &report) < 0)
		return failure("cannot open /dev/null");
	look_in(FIRST_LOOK_US);
	rc = tracer_run(tracer, &status);
	forward_to = 0;
	if (rc != 0)
		return failure("cannot trace the program");
	return conclude(tracer, status, report, what->table);
}

/* The tracing process.  Its parent is the one that was started. */
static void run_tracer(const struct supervised *what, const struct signals *signals, int out)
	__attribute__((noreturn));

static void run_tracer(const struct supervised *what, const struct signals *signals, int out)
{
	struct tracer tracer = {
		.look_due = &look_due,
		.stops.huge_page_bytes = what->huge_page_bytes,
	};
	struct word word;
	int status;

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	word = trace(what, signals, &tracer, &out);
	prctl(PR_SET_PDEATHSIG, 0);
	if (write(out, &word, sizeof(word)) < 0)
		_exit(EXIT_OWN_FAILURE);
	close(out);
	if (word.remains && word.code >= 0)
		while (tracer_run(&tracer, &status) == 0)
			;
	_exit(0);
}

int supervisor_run(const struct supervised *what, const char **failed)
{
	const struct sigaction wait_for_it = { .sa_handler = SIG_DFL };
	struct word word = { .code = -1, .error = ESRCH, .failed = "the tracing process ended" };
	struct signals signals;
	sigset_t all;
	int words[2];
	ssize_t n;
	pid_t pid;

	*failed = "cannot start the tracing process";
	sigfillset(&all);
	if (pipe2(words, O_CLOEXEC) < 0 || sigprocmask(SIG_BLOCK, &all, &signals.mask) < 0 ||
	    sigaction(SIGCHLD, &wait_for_it, &signals.on_child) < 0)
		return -1;
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	pid = fork();
	if (pid < 0)
		return -1;
	if (pid == 0)
		run_tracer(what, &signals, words[1]);
	close(words[1]);
	handle_signals(pid);
	do
		n = read(words[0], &word, sizeof(word));
	while (n < 0 && errno == EINTR);
	if (!word.remains)
		while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
			;
	*failed = word.failed;
	errno = word.error;
	return word.code;
}
