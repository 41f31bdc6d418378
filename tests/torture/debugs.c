/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does a program that traces its child see the child's stops, and those alone? */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "torture.h"

/* It asks to be traced, as programs do that want no debugger. */
static void be_traced(void)
{
	if (ptrace(PTRACE_TRACEME, 0, NULL, NULL))
		_exit(1);
	raise(SIGUSR1);
	for (int i = 0; i < 20; i++) {
		torture_spin(100000);
		getppid();
	}
	_exit(3);
}

static const char *trace(pid_t child)
{
	struct user_regs_struct registers;
	unsigned calls = 0;
	int status;
	const char *wrong = torture_result(waitpid(child, &status, 0), child, 0);

	if (wrong || !WIFSTOPPED(status) || WSTOPSIG(status) != SIGUSR1)
		return wrong ? wrong : torture_wrong("its first stop: %#x", (unsigned)status);
	ptrace(PTRACE_SETOPTIONS, child, NULL, (long)PTRACE_O_TRACESYSGOOD);
	for (;;) {
		ptrace(PTRACE_SYSCALL, child, NULL, NULL);
		wrong = torture_result(waitpid(child, &status, 0), child, 0);
		if (wrong)
			return wrong;
		if (WIFEXITED(status))
			break;
		if (!WIFSTOPPED(status) || WSTOPSIG(status) != (SIGTRAP | 0x80))
			return torture_wrong("a stop: %#x", (unsigned)status);
		ptrace(PTRACE_GETREGS, child, NULL, &registers);
		calls += registers.orig_rax == 110 /* getppid */;
	}
	if (WEXITSTATUS(status) != 3)
		return torture_wrong("exit code %d", WEXITSTATUS(status));
	return torture_result(calls, 40, 0);
}

static const char *steps(void *state)
{
	pid_t child = fork();

	(void)state;
	if (!child)
		be_traced();
	return trace(child);
}

static const struct torture_case cases[] = {
	{ .name = "a child that is traced", .once = steps },
};

/* With an argument it is not dumpable, either. */
int main(int argc, char **argv)
{
	struct account *account;
	int failed;

	(void)argv;
	if (argc > 1)
		prctl(PR_SET_DUMPABLE, 0);
	account = account_begin(false);
	failed = torture_run(cases, sizeof(cases) / sizeof(*cases));
	return failed + account_end(account) ? 1 : 0;
}
