/* SPDX-License-Identifier: GPL-2.0-or-later */
/* refuses REASON: a program that must not be copied, and notices if it was touched. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "torture.h"

enum { CANNOT = 4 };

/* Kills whoever makes a process, or anything else that this program does not. */
static int filter_calls(void)
{
	struct sock_filter steps[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(steps) / sizeof(*steps), steps };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER,
							       &program);
}

static int use_huge_page(void)
{
	char *page = mmap(NULL, 2 << 20, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);

	if (page == MAP_FAILED)
		return -1;
	*page = 1;
	return 0;
}

/* A child is its debugger, for as long as it lives. */
static int have_tracer(void)
{
	pid_t parent = getpid(), child;
	int ready[2], status;
	char byte;

	if (pipe2(ready, O_CLOEXEC))
		return -1;
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (ptrace(PTRACE_ATTACH, parent, NULL, NULL) || waitpid(parent, &status,
									 0) != parent ||
		    write(ready[1], "", 1) != 1)
			_exit(1);
		ptrace(PTRACE_CONT, parent, NULL, NULL);
		while (waitpid(parent, &status, 0) == parent && WIFSTOPPED(status))
			ptrace(PTRACE_CONT, parent, NULL, (long)WSTOPSIG(status));
		_exit(0);
	}
	close(ready[1]);
	return read(ready[0], &byte, 1) != 1;
}

static int hide(void)
{
	return prctl(PR_SET_DUMPABLE, 0);
}

static int do_nothing(void)
{
	return 0;
}

static const struct { const char *name; int (*prepare)(void); } reasons[] = {
	{ "none", do_nothing },
	{ "seccomp", filter_calls },
	{ "hugetlb", use_huge_page },
	{ "traced", have_tracer },
	{ "undumpable", hide },
};

int main(int argc, char **argv)
{
	for (size_t i = 0; i < sizeof(reasons) / sizeof(*reasons); i++) {
		if (argc < 2 || strcmp(argv[1], reasons[i].name))
			continue;
		if (reasons[i].prepare()) {
			printf("cannot: %s\n", strerrorname_np(errno));
			return CANNOT;
		}
		/* Nothing is copied before: this tells the test. */
		if (argc > 2)
			close(open(argv[2], O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
		while (torture_more())
			torture_spin(1000000);
		puts("unharmed");
		return 11;
	}
	return 2;
}
