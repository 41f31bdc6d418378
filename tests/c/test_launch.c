/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What of the launcher does tests/bats/launch.bats not see? */
#include <errno.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "program.h"

/* Somebody stops it before its program, and ends us. */
static int stop(pid_t pid, void *context)
{
	siginfo_t stopped;

	(void)context;
	if (kill(pid, SIGSTOP) < 0)
		return -1;
	CHECK_EQUAL(waitid(P_PID, (id_t)pid, &stopped, WSTOPPED | WNOWAIT), 0);
	return raise(SIGTERM);
}

TEST(program_stopped_before_its_start_ends_with_the_launcher)
{
	static char name[] = "true";
	char *argv[] = { name, NULL };
	const struct program_options options = { .argv = argv };
	const struct program_hooks hooks = { .attach = stop };
	struct program program;

	CHECK_EQUAL(program_open(&program, &options), 0);
	CHECK_EQUAL(program_run(&program, &hooks), 128 + SIGKILL);
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	close(program.signals.fd);
}

/* A hook that is called at each tick of an eventfd, three times at most. */
static int tick(void *context)
{
	int *left = context;

	errno = ECANCELED;
	return --*left == 0 ? -1 : 0;
}

TEST(watch_calls_its_hook_and_ends_with_it)
{
	static char sleep[] = "sleep", time[] = "100";
	char *argv[] = { sleep, time, NULL };
	const struct program_options options = { .argv = argv };
	int left = 3;
	struct watch_hook during = { .ready = tick, .context = &left };
	const struct program_hooks hooks = { .during = &during };
	struct program program;

	/* Nobody reads it: it stays readable. */
	during.fd = eventfd(1, EFD_CLOEXEC);
	CHECK(during.fd >= 0);
	CHECK_EQUAL(program_open(&program, &options), 0);
	CHECK_EQUAL(program_run(&program, &hooks), -1);
	CHECK_EQUAL(errno, ECANCELED);
	CHECK_EQUAL(left, 0);
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	close(during.fd);
	close(program.signals.fd);
}

CHECK_MAIN
