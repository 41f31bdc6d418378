/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A program whose tracers, the injector or tlbcost-thp, are killed whatever they are doing. */
#include "check.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "injected.h"
#include "live.h"
#include "thread_facts.h"

#define MEMORY_BYTES ((size_t)64 << 20)
#define HUGE_BYTES ((uint64_t)2 << 20)
#define KILLS 200u
/* Not given to children, every other page. */
#define UNFORKED 16u

struct shared {
	volatile int end;
	volatile unsigned long alarms;
};

static struct shared *shared;
static volatile sig_atomic_t alarms;

static unsigned unforked_mappings(void)
{
	FILE *smaps = fopen("/proc/self/smaps", "re");
	char line[4352];
	unsigned count = 0;

	while (smaps && fgets(line, sizeof(line), smaps))
		count += strncmp(line, "VmFlags:", 8) == 0 && strstr(line, " dc");
	if (smaps)
		fclose(smaps);
	return count;
}

static void on_alarm(int signal)
{
	(void)signal;
	alarms++;
	shared->alarms++;
}

/*
 * Registers, flags, vector registers and memory all take part; signals come all the time, and it
 * makes system calls.
 */
static void work(int output)
{
	const struct itimerval every = { { 0, 700 }, { 0, 700 } };
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	uint64_t *memory = mmap(NULL, MEMORY_BYTES, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t sum = 0, turns = 0, difference = 0;
	double real = 0;

	char *unforked = mmap(NULL, 2 * UNFORKED * 4096, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	for (unsigned i = 0; i < UNFORKED; i++)
		madvise(unforked + 2 * i * 4096, 4096, MADV_DONTFORK);
	madvise(memory, MEMORY_BYTES, MADV_NOHUGEPAGE);
	memset(memory, 0, MEMORY_BYTES);
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	while (!shared->end) {
		for (uint64_t i = 0; i < 2000; i++) {
			sum += i ^ (sum >> 3);
			real += 0.25;
		}
		memory[turns % (MEMORY_BYTES / 8)]++;
		turns++;
		if (turns % 64 == 0 && getppid() == 0)
			_exit(2);
	}
	/* All again, undisturbed. */
	for (uint64_t turn = 0, again = 0; turn < turns; turn++) {
		for (uint64_t i = 0; i < 2000; i++)
			again += i ^ (again >> 3);
		difference = again ^ sum;
	}
	for (uint64_t turn = 0; turn < turns; turn++)
		memory[turn % (MEMORY_BYTES / 8)]--;
	for (size_t i = 0; i < MEMORY_BYTES / 8; i++)
		difference |= memory[i];
	if (unforked_mappings() != UNFORKED)
		_exit(5);
	if (waitpid(-1, NULL, __WALL) >= 0 || errno != ECHILD)
		_exit(6);
	if (real != (double)turns * 500 || write(output, &difference, 8) != 8)
		_exit(3);
	_exit(difference ? 4 : 7);
}

static void reap_copies(pid_t program)
{
	siginfo_t info;

	/* The program itself must not be waited for yet. */
	for (;;) {
		info.si_pid = 0;
		if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) < 0 ||
		    !info.si_pid || info.si_pid == program)
			return;
		waitpid(info.si_pid, NULL, __WALL);
	}
}

/* A hint: a moment later it may be otherwise. */
static bool is_traced(const struct injected *injected)
{
	struct thread_facts facts;

	return thread_facts_read(injected->program, injected->program, &facts) == 0 &&
		facts.tracer == injected->injector;
}

/* Returns whether it was killed while it traced the program. */
static bool kill_injector(struct injected *injected, unsigned us)
{
	struct injector_request request = injected_request(injected);
	struct injector_answer answer;
	bool traced;

	if (injected_start_injector(injected) < 0)
		return false;
	/* The second copy of a process has its unforked memory. */
	request.sibling = us % 4 < 2;
	if (us % 8 < 4 && injector_ask(injected->socket, &request, &answer) == 0 && answer.copies) {
		copy_take(&answer.copy[0]);
		copy_kill(&answer.copy[0]);
	}
	/* Sometimes while it records. */
	request.record_calls = us % 2 ? 100 : 0;
	request.record_ms = 2;
	if (send(injected->socket, &request, sizeof(request), MSG_NOSIGNAL) < 0)
		return false;
	injected_nap(us);
	if (recv(injected->socket, &answer, sizeof(answer), MSG_DONTWAIT) == sizeof(answer)) {
		if (answer.copies) {
			copy_take(&answer.copy[0]);
			copy_kill(&answer.copy[0]);
		}
	}
	traced = is_traced(injected);
	kill(injected->injector, SIGKILL);
	waitpid(injected->injector, NULL, 0);
	close(injected->socket);
	return traced;
}

/* As `tlbcost run --thp --pid` and `tlbcost numa --watch --apply` do. */
static bool kill_thp(struct injected *injected, unsigned us)
{
	const pid_t program = injected->program, tracer = fork();
	struct live_result result;
	struct thread_facts facts;
	const char *failed;
	bool traced;

	if (tracer == 0)
		for (unsigned i = 0;; i++) {
			if (us % 4 == 0)
				live_ask(program, us % 8, HUGE_BYTES, &result, &failed);
			else
				live_switch(program, i % 2, &failed);
		}
	injected_nap(us);
	traced = thread_facts_read(program, program, &facts) == 0 && facts.tracer == tracer;
	kill(tracer, SIGKILL);
	waitpid(tracer, NULL, 0);
	return traced;
}

static void kill_often(bool (*kill_once)(struct injected *injected, unsigned us))
{
	struct injected injected;
	unsigned long before;
	unsigned killed = 0;
	uint64_t difference = 1;
	int status;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	CHECK_EQUAL(injected_start(&injected, work), 0);
	close(injected.socket);
	waitpid(injected.injector, NULL, 0);
	injected_nap(50000);
	srandom(1);
	for (unsigned i = 0; i < KILLS; i++) {
		killed += kill_once(&injected, (unsigned)(random() % 12000));
		reap_copies(injected.program);
		if (kill(injected.program, 0) < 0)
			break;
	}
	/* Its signals are not blocked. */
	before = shared->alarms;
	injected_nap(50000);
	CHECK(shared->alarms > before);
	shared->end = 1;
	CHECK_EQUAL(read(injected.from_program, &difference, 8), 8);
	CHECK_EQUAL(difference, 0);
	injected_start_injector(&injected);
	status = injected_end(&injected);
	CHECK(WIFEXITED(status));
	CHECK_EQUAL(WEXITSTATUS(status), 7);
	printf("# killed %u of %u times while it traced the program\n", killed, KILLS);
	CHECK(killed > 0);
	munmap(shared, sizeof(*shared));
}

TEST(the_injector_is_killed_at_any_instant)
{
	kill_often(kill_injector);
}

TEST(tlbcost_thp_is_killed_at_any_instant)
{
	kill_often(kill_thp);
}

CHECK_MAIN
