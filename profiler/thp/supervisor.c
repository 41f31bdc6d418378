/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "program.h"
#include "sysfile.h"
#include "table.h"
#include "tracer.h"

#ifndef SECCOMP_FILTER_FLAG_SPEC_ALLOW
#define SECCOMP_FILTER_FLAG_SPEC_ALLOW (1UL << 2)
#endif

/* Smaller ones are many, and too small to matter even where they adjoin. */
#define LEAST_BYTES (16u << 10)

/* Half a 64-bit argument, on a little-endian processor. */
#define LOW(i) ((unsigned)(offsetof(struct seccomp_data, args) + 8 * (i)))
#define HIGH(i) (LOW(i) + 4)

/* Jumps name how many statements are skipped if it is so; UNLESS: if it is not. */
#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset))
#define IF(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (skip), 0)
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (skip))
#define IF_ANY(bits, skip) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), (skip), 0)
#define UNLESS_ANY(bits, skip) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), 0, (skip))
#define IF_LEAST(value, skip) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (value), (skip), 0)
#define UNLESS_LEAST(value, skip) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (value), 0, (skip))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define STOP BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE)

#ifdef __x86_64__
#define ARCHITECTURE AUDIT_ARCH_X86_64
#else
#define ARCHITECTURE 0u
#endif

struct filter {
	struct sock_filter statements[80];
	unsigned short length;
};

static void append(struct filter *filter, const struct sock_filter *statements, size_t n)
{
	memcpy(filter->statements + filter->length, statements, n * sizeof(*statements));
	filter->length = (unsigned short)(filter->length + n);
}

/* What is done at one call; `statements` end with ALLOW or STOP on each path. */
static void at(struct filter *filter, long call, const struct sock_filter *statements, size_t n)
{
	const struct sock_filter head[] = {
		LOAD(offsetof(struct seccomp_data, nr)),
		UNLESS((unsigned)call, (unsigned char)n),
	};

	append(filter, head, 2);
	append(filter, statements, n);
}

#define AT(filter, call, ...) \
	do { \
		const struct sock_filter body[] = { __VA_ARGS__ }; \
		at(filter, call, body, sizeof(body) / sizeof(body[0])); \
	} while (0)

static void make_filter(struct filter *filter, uint32_t huge_page_bytes)
{
	const struct sock_filter others = ALLOW;
	const struct sock_filter same_architecture[] = {
		LOAD(offsetof(struct seccomp_data, arch)), IF(ARCHITECTURE, 1), ALLOW,
	};

	filter->length = 0;
	append(filter, same_architecture, 3);
	AT(filter, SYS_mmap,
	   LOAD(HIGH(1)), UNLESS(0, 2),
	   LOAD(LOW(1)), UNLESS_LEAST(LEAST_BYTES, 3),
	   LOAD(LOW(3)), UNLESS_ANY(MAP_ANONYMOUS, 1),
	   UNLESS_ANY(MAP_STACK | MAP_GROWSDOWN | MAP_HUGETLB, 1), ALLOW, STOP);
	AT(filter, SYS_brk, STOP);
	AT(filter, SYS_mremap,
	   LOAD(HIGH(2)), UNLESS(0, 2), LOAD(LOW(2)), UNLESS_LEAST(huge_page_bytes, 1), STOP, ALLOW);
	AT(filter, SYS_munmap,
	   LOAD(HIGH(1)), UNLESS(0, 2), LOAD(LOW(1)), UNLESS_LEAST(huge_page_bytes, 1), STOP, ALLOW);
	AT(filter, SYS_mprotect,
	   LOAD(LOW(2)), UNLESS(PROT_READ | PROT_WRITE, 10),
	   LOAD(HIGH(1)), UNLESS(0, 9),
	   LOAD(LOW(0)), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, huge_page_bytes - 1),
	   IF(0, 6), BPF_STMT(BPF_MISC | BPF_TAX, 0),
	   LOAD(LOW(1)), IF_LEAST(huge_page_bytes, 3),
	   BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0), IF_LEAST(huge_page_bytes, 1), ALLOW, STOP);
	AT(filter, SYS_set_tid_address, STOP);
	AT(filter, SYS_seccomp, STOP);
	AT(filter, SYS_prctl,
	   LOAD(LOW(0)), IF(PR_SET_SECCOMP, 4), UNLESS(PR_SET_THP_DISABLE, 2),
	   LOAD(LOW(1)), UNLESS(0, 1), ALLOW, STOP);
	AT(filter, SYS_ptrace, STOP);
	append(filter, &others, 1);
}

static int install(const struct sock_fprog *program)
{
	/* Else older kernels would slow all of the program down, against speculation. */
	long rc = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW,
			  program);

	if (rc < 0 && errno == EINVAL)
		rc = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program);
	return rc < 0 ? -1 : 0;
}

/*
 * Have the kernel stop the calling process, and whatever it executes, for its
 * tracer (PTRACE_EVENT_SECCOMP) at:
 *   - mmap of anonymous memory of 16 KiB and more, but for stacks and hugetlb
 *   - brk
 *   - mremap to a huge page's size and more
 *   - munmap of a huge page's size and more, after which memory is at its peak
 *     no longer
 *   - mprotect that makes memory readable and writable from the start of a huge
 *     page, or up to or beyond the end of one
 *   - set_tid_address, which each C library calls once, when it starts
 *   - seccomp and prctl where they give the process a filter of its own, prctl
 *     where it turns transparent huge pages off
 *   - ptrace, which cannot work in it
 * Without a tracer those calls fail with ENOSYS.  A process without
 * CAP_SYS_ADMIN can then gain no rights by execve() (PR_SET_NO_NEW_PRIVS).
 * Returns 0, or -1 with errno: ENOSYS or EINVAL where the kernel has no seccomp
 * filters, EPERM or EACCES where this process may have none.
 */
static int traced_calls_install(uint64_t huge_page_bytes)
{
	struct filter filter;
	struct sock_fprog program = { .filter = filter.statements };

	make_filter(&filter, (uint32_t)huge_page_bytes);
	program.len = filter.length;
	if (install(&program) == 0)
		return 0;
	/* Root's may; others must promise first that they gain no rights by it. */
	if (errno != EACCES || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return install(&program);
}

static const char columns[] =
	"exit_code signal exec_errno anonymous_bytes huge_bytes processes requests filtered "
	"disabled ptraced left_processes";

static void cell(struct table *table, int known, uint64_t value)
{
	if (known)
		table_count(table, value);
	else
		table_na(table);
}

/*
 * Write the 'thp' table of doc/format.md; nothing if path is NULL.  The program
 * ended with this wait status, unless exec_errno says that it did not start.
 * Returns 0, or -1 with errno.
 */
static int thp_table_write(const char *path, const struct tracer *tracer, int status, int exec_errno)
{
	const struct reached *reached = &tracer->reached;
	const struct stops *stops = &tracer->stops;
	int ran = exec_errno == 0;
	struct table table;

	if (!path)
		return 0;
	if (table_open(&table, path, "thp", 1) < 0)
		return -1;
	table_columns(&table, columns);
	cell(&table, ran && WIFEXITED(status), (uint64_t)WEXITSTATUS(status));
	cell(&table, ran && WIFSIGNALED(status), (uint64_t)WTERMSIG(status));
	cell(&table, !ran, (uint64_t)exec_errno);
	cell(&table, reached->seen, reached->anonymous_bytes);
	cell(&table, reached->seen, reached->huge_bytes);
	cell(&table, reached->seen, reached->processes);
	cell(&table, ran, stops->requests);
	cell(&table, ran, stops->filtered);
	cell(&table, ran, stops->disabled);
	cell(&table, ran, stops->ptraced);
	cell(&table, ran, tasks_memories(&tracer->tasks));
	return table_close(&table);
}

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
		.stops.text = what->text,
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
