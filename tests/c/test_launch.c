/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Do the launcher's modules keep their contracts, each by itself? */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "program.h"
#include "saved.h"

TEST(user_is_two_numbers)
{
	static const char *const bad[] = {
		"", "1", "1:", ":1", "a:1", "1:a", "-1:1", "1:-1", "1:1 ", " 1:1",
		"4294967295:1", "1:4294967295", "99999999999999999999:1",
	};
	struct user_account user;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		errno = 0;
		CHECK_EQUAL(user_parse(&user, bad[i]), -1);
		CHECK_EQUAL(errno, EINVAL);
	}
	CHECK_EQUAL(user_parse(&user, "0:12"), 0);
	CHECK_EQUAL(user.uid, 0);
	CHECK_EQUAL(user.gid, 12);
	CHECK(user.name && strcmp(user.name, "root") == 0);
	user_free(&user);
	CHECK_EQUAL(user_parse(&user, "4000000001:7"), 0);
	CHECK(!user.name);
	CHECK(strcmp(user.home, "/") == 0);
	user_free(&user);
}

/* Start, drain and reap one program through the modules, as program.c does. */
static int one_run(char *const *argv, struct tail *words, int *status)
{
	struct watch_signals signals;
	struct watch_result result;
	enum child_failure failure;
	int pipes[2];
	pid_t pid;

	if (watch_prepare(&signals) < 0 || pipe(pipes) < 0)
		return -1;
	struct child_plan plan = {
		.argv = argv, .stdout_fd = -1, .stderr_fd = pipes[1],
		.mask = &signals.mask, .on_child = &signals.on_child,
	};
	int rc = child_start(&plan, &pid, &failure);

	close(pipes[1]);
	if (rc == 0)
		rc = watch_program(&signals, pid, -1, pipes[0], words, NULL, &result);
	close(pipes[0]);
	close(signals.fd);
	if (rc == 0)
		*status = result.status;
	return rc;
}

TEST(program_is_run_and_reaped)
{
	static char sh[] = "/bin/sh", option[] = "-c";
	static char text[] = "echo words >&2; exit 9";
	char *argv[] = { sh, option, text, NULL };
	struct tail words = { 0 };
	char bytes[16] = "";
	int status = 0;

	CHECK_EQUAL(one_run(argv, &words, &status), 0);
	CHECK(WIFEXITED(status));
	CHECK_EQUAL(WEXITSTATUS(status), 9);
	CHECK_EQUAL(saved(&words, bytes, sizeof(bytes)), 6);
	CHECK(memcmp(bytes, "words\n", 6) == 0);
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

TEST(program_that_cannot_start_leaves_no_child)
{
	static char missing[] = "./no-such-program";
	char *argv[] = { missing, NULL };
	struct tail words = { 0 };
	int status = 0;

	CHECK_EQUAL(one_run(argv, &words, &status), -1);
	CHECK_EQUAL(errno, ENOENT);
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
}

/* What a hook saw of the process that it was called for. */
struct seen {
	int error;	/* to refuse with; 0: let it run */
	pid_t pid;
	char name[PATH_MAX];
};

static int look(pid_t pid, void *context)
{
	struct seen *seen = context;
	char link[64];
	ssize_t n;

	seen->pid = pid;
	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	n = readlink(link, seen->name, sizeof(seen->name) - 1);
	seen->name[n < 0 ? 0 : n] = '\0';
	errno = seen->error;
	return seen->error ? -1 : 0;
}

/* Run a program through the module, with the hook.  Returns its exit code. */
static int run_seen(char *const *argv, struct seen *seen, struct program *program,
		    const struct rlimit *files)
{
	const struct program_options options = { .argv = argv, .files = files };
	const struct program_hooks hooks = { .attach = look, .context = seen };

	if (program_open(program, &options) < 0)
		return -1;
	return program_run(program, &hooks);
}

TEST(hook_sees_the_process_before_the_program)
{
	static char name[] = "true";
	char *argv[] = { name, NULL };
	struct seen seen = { 0 };
	struct program program;

	CHECK_EQUAL(run_seen(argv, &seen, &program, NULL), 0);
	CHECK(program.started);
	CHECK(*seen.name == '/');
	CHECK(strcmp(strrchr(seen.name, '/'), "/true") != 0);
	CHECK(program.result.end_ns > program.start_ns);
	close(program.signals.fd);
}

TEST(refusal_of_the_hook_leaves_no_child)
{
	static char touch[] = "touch", file[] = "/tmp/test_launch.started";
	char *argv[] = { touch, file, NULL };
	struct seen seen = { .error = EMFILE };
	struct program program;

	unlink(file);
	CHECK_EQUAL(run_seen(argv, &seen, &program, NULL), -1);
	CHECK_EQUAL(errno, EMFILE);
	CHECK(program.failed != NULL);
	CHECK(seen.pid > 0);
	CHECK(kill(seen.pid, 0) < 0 && errno == ESRCH);
	CHECK(access(file, F_OK) < 0);
	CHECK(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
	close(program.signals.fd);
}

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

TEST(program_gets_its_own_file_limit)
{
	static char sh[] = "sh", option[] = "-c", text[] = "exit $(ulimit -n)";
	char *argv[] = { sh, option, text, NULL };
	struct rlimit ours, files;
	struct seen seen = { 0 };
	struct program program;

	CHECK_EQUAL(getrlimit(RLIMIT_NOFILE, &ours), 0);
	files = ours;
	files.rlim_cur = 77;
	CHECK_EQUAL(run_seen(argv, &seen, &program, &files), 77);
	CHECK_EQUAL(getrlimit(RLIMIT_NOFILE, &files), 0);
	CHECK(files.rlim_cur == ours.rlim_cur);
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

TEST(others_are_watched_to_their_end)
{
	struct watch_signals signals;
	int end = eventfd(1, EFD_CLOEXEC);

	CHECK_EQUAL(watch_prepare(&signals), 0);
	CHECK_EQUAL(watch_others(&signals, end, NULL), 0);
	raise(SIGINT);
	CHECK_EQUAL(watch_others(&signals, -1, NULL), 0);
	close(signals.fd);
	close(end);
}

CHECK_MAIN
