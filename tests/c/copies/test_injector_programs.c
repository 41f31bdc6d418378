/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Programs that are not easy to copy: what do they see, and which are refused? */
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/utsname.h>

#include "injected.h"

/* What a test and its program share. */
struct shared {
	volatile int end, ready;
	volatile unsigned long turns;
	volatile pid_t thread;
};

static struct shared *shared;

static int begin(struct injected *injected, void (*program)(int output))
{
	if (!shared)
		shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	memset(shared, 0, sizeof(*shared));
	if (injected_start(injected, program) < 0)
		return -1;
	for (unsigned i = 0; i < 2000 && !shared->ready; i++)
		injected_nap(1000);
	return shared->ready ? 0 : -1;
}

/* It is asked to end. */
static int end(struct injected *injected)
{
	shared->end = 1;
	return injected_end(injected);
}

static void spin(void)
{
	shared->ready = 1;
	while (!shared->end)
		shared->turns++;
}

/* Copies of a thread, each killed at once.  Returns how many there were. */
static unsigned copy_times(struct injected *injected, const struct injector_request *request,
			   unsigned times)
{
	struct injector_answer answer;
	unsigned made = 0;

	for (unsigned i = 0; i < times; i++) {
		CHECK_EQUAL(injector_ask(injected->socket, request, &answer), 0);
		for (uint32_t j = 0; j < answer.copies; j++) {
			CHECK_EQUAL(copy_take(&answer.copy[j]), 0);
			copy_kill(&answer.copy[j]);
			made++;
		}
	}
	return made;
}

static enum injector_refusal refusal_of(struct injected *injected, bool sleeping)
{
	struct injector_request request = injected_request(injected);
	struct injector_answer answer;

	request.sleeping = sleeping;
	if (injector_ask(injected->socket, &request, &answer) < 0)
		return REFUSED_FAILED;
	for (uint32_t i = 0; i < answer.copies; i++)
		copy_kill(&answer.copy[i]);
	return answer.refusal;
}

static void check_end(struct injected *injected, int code)
{
	int status = end(injected);

	CHECK(WIFEXITED(status));
	CHECK_EQUAL(WEXITSTATUS(status), code);
	while (waitpid(-1, NULL, __WALL) > 0)
		;
}

static pid_t child_of(pid_t process)
{
	char path[64];
	int child = 0;
	FILE *children;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", process, process);
	children = fopen(path, "r");
	if (children) {
		if (fscanf(children, "%d", &child) != 1)
			child = 0;
		fclose(children);
	}
	return child;
}

/* Children of the program that it has not made. */
static void has_no_child(int output)
{
	(void)output;
	spin();
	errno = 0;
	_exit(waitpid(-1, NULL, __WALL) < 0 && errno == ECHILD ? 7 : 1);
}

TEST(a_program_that_was_not_launched_reaps_its_copies_and_has_no_others)
{
	struct injector_request request;
	struct injector_answer answer;
	struct injected injected;

	CHECK_EQUAL(begin(&injected, has_no_child), 0);
	request = injected_request(&injected);
	request.sibling = false;
	for (unsigned i = 0; i < 60; i++) {
		CHECK_EQUAL(injector_ask(injected.socket, &request, &answer), 0);
		CHECK_EQUAL(answer.copies, 1);
		CHECK(answer.orphaned);
		/* Neither a copy nor what forked it. */
		CHECK_EQUAL(child_of(injected.program), 0);
		if (!answer.copies)
			break;
		CHECK_EQUAL(copy_take(&answer.copy[0]), 0);
		copy_kill(&answer.copy[0]);
	}
	check_end(&injected, 7);
}

/* The vDSO's last page is full. */
static void has_no_room(int output)
{
	char line[256];
	unsigned long start, finish, at, before = 0, after = 0;
	int memory = open("/proc/self/mem", O_RDWR);
	FILE *maps = fopen("/proc/self/maps", "r");

	(void)output;
	while (fgets(line, sizeof(line), maps)) {
		before++;
		if (!strstr(line, "[vdso]") || sscanf(line, "%lx-%lx", &start, &finish) != 2)
			continue;
		for (at = finish - 1; !*(unsigned char *)at; at--)
			if (pwrite(memory, "\xcc", 1, (off_t)at) != 1)
				_exit(2);
	}
	fclose(maps);
	spin();
	maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof(line), maps))
		after++;
	_exit(before == after ? 7 : 1);
}

TEST(no_room_behind_the_vdso)
{
	struct injector_request request;
	struct injected injected;

	CHECK_EQUAL(begin(&injected, has_no_room), 0);
	request = injected_request(&injected);
	CHECK_EQUAL(copy_times(&injected, &request, 20), 20);
	check_end(&injected, 7);
}

static void only_spins(int output)
{
	(void)output;
	spin();
	_exit(7);
}

TEST(sigstop_and_sigcont_have_their_effect)
{
	struct injected injected;
	struct injector_request request;
	unsigned made = 0, rounds = 0;
	unsigned long before;
	pid_t sender;

	CHECK_EQUAL(begin(&injected, only_spins), 0);
	request = injected_request(&injected);
	sender = fork();
	if (sender == 0) {
		for (int i = 0; i < 500; i++) {
			kill(injected.program, SIGSTOP);
			injected_nap((unsigned)(i % 7) * 50);
			kill(injected.program, SIGCONT);
			injected_nap((unsigned)(i % 5) * 100);
		}
		kill(injected.program, SIGSTOP);
		_exit(0);
	}
	while (waitpid(sender, NULL, WNOHANG) == 0) {
		made += copy_times(&injected, &request, 1);
		rounds++;
	}
	CHECK(made > 10);
	injected_nap(1000);
	/* A stop is a stop, also for one who was copied. */
	CHECK_EQUAL(refusal_of(&injected, true), REFUSED_STOPPED);
	before = shared->turns;
	injected_nap(20000);
	CHECK_EQUAL(shared->turns, before);
	kill(injected.program, SIGCONT);
	injected_nap(20000);
	CHECK(shared->turns > before);
	check_end(&injected, 7);
}

TEST(sigkill_at_any_time)
{
	struct injected injected;
	struct injector_request request;
	struct injector_answer answer;
	int status = 0;

	for (unsigned i = 0; i < 40; i++) {
		pid_t killer;

		CHECK_EQUAL(begin(&injected, only_spins), 0);
		request = injected_request(&injected);
		killer = fork();
		if (killer == 0) {
			injected_nap(i * 30);
			kill(injected.program, SIGKILL);
			_exit(0);
		}
		for (;;) {
			CHECK_EQUAL(injector_ask(injected.socket, &request, &answer), 0);
			for (uint32_t j = 0; j < answer.copies; j++)
				copy_kill(&answer.copy[j]);
			if (answer.refusal != INJECTED)
				break;
		}
		waitpid(killer, NULL, 0);
		status = injected_end(&injected);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
		while (waitpid(-1, NULL, __WALL) > 0)
			;
	}
}

static void *end_at_once(void *argument)
{
	shared->thread = (pid_t)syscall(SYS_gettid);
	for (volatile unsigned i = 0; i < 5000000; i++)
		;
	return argument;
}

static void has_short_threads(int output)
{
	pthread_t thread;

	(void)output;
	shared->ready = 1;
	while (!shared->end) {
		if (pthread_create(&thread, NULL, end_at_once, NULL) != 0)
			_exit(1);
		pthread_join(thread, NULL);
		shared->turns++;
	}
	_exit(7);
}

TEST(threads_that_end_soon)
{
	struct injected injected;
	struct injector_request request;
	unsigned made = 0;

	CHECK_EQUAL(begin(&injected, has_short_threads), 0);
	request = injected_request(&injected);
	/* On a busy machine hundreds find a thread that has ended before there is another. */
	for (unsigned i = 0; i < 500 || (!made && i < 20000); i++) {
		request.thread = shared->thread;
		made += copy_times(&injected, &request, 1);
		if (!made && i >= 500)
			injected_nap(500);
	}
	CHECK(made > 0);
	check_end(&injected, 7);
}

/* Its calls go to a handler of its own, if it says so. */
static void dispatches_calls(int output)
{
	static char selector;

	(void)output;
	if (prctl(59 /* PR_SET_SYSCALL_USER_DISPATCH */, 1, 0, 0, &selector) < 0)
		_exit(4);
	spin();
	_exit(7);
}

static void is_vfork_parent(int output)
{
	(void)output;
	if (vfork() == 0) {
		spin();
		_exit(0);
	}
	_exit(7);
}

static void has_ring(int output)
{
	char parameters[120] = { 0 };

	(void)output;
	if (syscall(425, 8, parameters) < 0)
		_exit(4);
	spin();
	_exit(7);
}

static void handles_faults(int output)
{
	(void)output;
	if (syscall(SYS_userfaultfd, O_CLOEXEC | 1 /* UFFD_USER_MODE_ONLY */) < 0)
		_exit(4);
	spin();
	_exit(7);
}

static void sleeps(int output)
{
	(void)output;
	shared->ready = 1;
	while (!shared->end)
		injected_nap(10000);
	_exit(7);
}

static void check_refused(void (*program)(int output), enum injector_refusal refusal)
{
	struct injected injected;

	if (begin(&injected, program) < 0) {
		end(&injected);
		CHECK_SKIP("the kernel does not give it");
	}
	injected_nap(5000);
	CHECK_EQUAL(refusal_of(&injected, false), refusal);
	check_end(&injected, 7);
}

TEST(refused_system_calls_dispatched_to_the_user)
{
	check_refused(dispatches_calls, REFUSED_SECCOMP);
}
TEST(refused_the_parent_of_a_vfork)
{
	check_refused(is_vfork_parent, REFUSED_BUSY);
}
/* Before Linux 5.12 a copy could cancel the program's requests. */
TEST(rings_are_refused_where_a_copy_shares_them)
{
	unsigned major = 0, minor = 0;
	struct utsname system;

	CHECK(uname(&system) == 0 && sscanf(system.release, "%u.%u", &major, &minor) == 2);
	check_refused(has_ring, major < 5 || (major == 5 && minor < 12) ? REFUSED_IO_URING : INJECTED);
}
TEST(refused_userfaultfd)
{
	check_refused(handles_faults, REFUSED_USERFAULTFD);
}
TEST(refused_asleep)
{
	check_refused(sleeps, REFUSED_SLEEPING);
}

TEST(refused_gone)
{
	struct injected injected;

	CHECK_EQUAL(begin(&injected, only_spins), 0);
	kill(injected.program, SIGKILL);
	injected_nap(10000);
	CHECK_EQUAL(refusal_of(&injected, true), REFUSED_GONE);
	injected_end(&injected);
}

/* The first process of a namespace of process ids, which is given its orphans. */
static void in_container(int output)
{
	pid_t first;
	int status;

	if (unshare(CLONE_NEWPID) < 0)
		_exit(4);
	first = fork();
	if (first == 0)
		has_no_child(output);
	waitpid(first, &status, 0);
	_exit(WEXITSTATUS(status));
}

TEST(a_namespace_of_process_ids)
{
	struct injector_request request;
	struct injector_answer answer;
	struct injected injected;

	if (begin(&injected, in_container) < 0) {
		end(&injected);
		CHECK_SKIP("no namespaces for this user");
	}
	request = injected_request(&injected);
	request.program = request.thread = child_of(injected.program);
	request.sibling = false;
	CHECK_EQUAL(injector_ask(injected.socket, &request, &answer), 0);
	CHECK_EQUAL(answer.copies, 1);
	CHECK(!answer.orphaned);
	CHECK(answer.copy[0].inner_pid > 1 && answer.copy[0].inner_pid < 10);
	CHECK(answer.copy[0].pid != answer.copy[0].inner_pid);
	request.dead[0] = answer.copy[0].inner_pid;
	request.dead_count = 1;
	request.task = INJECT_REAP;
	CHECK_EQUAL(copy_take(&answer.copy[0]), 0);
	copy_kill(&answer.copy[0]);
	CHECK_EQUAL(injector_ask(injected.socket, &request, &answer), 0);
	CHECK_EQUAL(answer.reaped, 1);
	check_end(&injected, 7);
}

CHECK_MAIN
