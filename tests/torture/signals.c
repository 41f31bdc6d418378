/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does every signal come once, in order, to the thread it was sent to, and are timers on time? */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "torture.h"

#define BURST 50
#define QUEUED (SIGRTMIN + 1)
#define TIMER (SIGRTMIN + 2)

/* Of the thread that handles them. */
static _Thread_local volatile struct { unsigned seen, expected; int wrong; uint64_t passed; } got;

static void handle_queued(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	if (info->si_value.sival_int != (int)got.expected || info->si_code != SI_QUEUE)
		got.wrong = 1;
	got.expected++;
	got.seen++;
}

static void handle_timer(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)context;
	got.passed += 1 + (uint64_t)info->si_overrun;
	got.seen++;
}

static void handle_plain(int signal)
{
	(void)signal;
	got.seen++;
}

static void unblock(int signal, int how)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signal);
	pthread_sigmask(how, &set, NULL);
}

struct target { pid_t thread; unsigned sent; };

static void *make_target(void)
{
	return calloc(1, sizeof(struct target));
}

/* While it computes, a burst of numbered signals comes from another thread. */
static const char *takes_burst(void *state)
{
	struct target *target = state;
	unsigned before = got.seen;

	unblock(QUEUED, SIG_UNBLOCK);
	__atomic_store_n(&target->thread, gettid(), __ATOMIC_SEQ_CST);
	while (got.seen - before < BURST)
		torture_spin(1000);
	unblock(QUEUED, SIG_BLOCK);
	return got.wrong ? "a signal was lost, doubled or out of order" : NULL;
}

static void send_burst(void *state)
{
	struct target *target = state;

	for (unsigned i = 0; i < BURST; i++) {
		siginfo_t info = { .si_code = SI_QUEUE };

		info.si_value.sival_int = (int)target->sent++;
		while (syscall(SYS_rt_tgsigqueueinfo, getpid(), target->thread, QUEUED, &info) &&
		       errno == EAGAIN)
			torture_sleep_ms(1);
		if (i % 8 == 0)
			torture_sleep_ms(1);
	}
}

/* Every expiration is counted: by a signal, or as an overrun of one. */
static const char *counts_expirations(void *state)
{
	struct sigevent event = { .sigev_notify = SIGEV_THREAD_ID, .sigev_signo = TIMER };
	struct itimerspec every_2ms = { { 0, 2000000 }, { 0, 2000000 } };
	uint64_t begun, most, passed;
	timer_t timer;

	(void)state;
	event._sigev_un._tid = gettid();
	got.passed = 0;
	unblock(TIMER, SIG_UNBLOCK);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer))
		return torture_result(-1, 0, 0);
	begun = torture_now_ns();
	timer_settime(timer, 0, &every_2ms, NULL);
	while (torture_now_ns() - begun < 50000000)
		torture_spin(1000);
	timer_delete(timer);
	most = (torture_now_ns() - begun) / 2000000;
	/* One that is due may be dropped with the timer. */
	passed = got.passed;
	unblock(TIMER, SIG_BLOCK);
	if (passed > most || passed + 12 < most)
		return torture_wrong("%llu expirations of %llu", (unsigned long long)passed,
				     (unsigned long long)most);
	return NULL;
}

static stack_t alternate;

static void check_stack(int signal, siginfo_t *info, void *context)
{
	char here;
	uintptr_t at = (uintptr_t)&here, low = (uintptr_t)alternate.ss_sp;

	(void)signal;
	(void)info;
	(void)context;
	torture_spin(100000);
	if (at < low || at >= low + alternate.ss_size)
		got.wrong = 1;
	got.seen++;
}

/* Signals on a stack of their own, while it is on another, and in it. */
static const char *uses_alternate_stack(void *state)
{
	stack_t now;

	(void)state;
	if (!alternate.ss_sp) {
		alternate = (stack_t){ .ss_sp = malloc(65536), .ss_size = 65536 };
		if (sigaltstack(&alternate, NULL))
			return torture_result(-1, 0, 0);
	}
	unblock(SIGUSR1, SIG_UNBLOCK);
	for (int i = 0; i < 20; i++) {
		syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);
		torture_spin(100000);
	}
	unblock(SIGUSR1, SIG_BLOCK);
	sigaltstack(NULL, &now);
	if (got.wrong || now.ss_sp != alternate.ss_sp || now.ss_flags)
		return "not on its stack";
	return got.seen % 20 ? torture_wrong("%u signals", got.seen) : NULL;
}

static _Thread_local sigjmp_buf back;

static void jump_back(int signal, siginfo_t *info, void *context)
{
	(void)context;
	siglongjmp(back, signal == SIGSEGV && info->si_code == SEGV_ACCERR ? 1 : 2);
}

/* Faults that a program handles itself, as garbage collectors do. */
static const char *handles_faults(void *state)
{
	volatile char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	volatile int came = 0;

	(void)state;
	for (volatile int i = 0; i < 200; i++) {
		int how = sigsetjmp(back, 1);

		if (!how) {
			*page = 1;
			return "a write went through";
		}
		came += how;
	}
	munmap((void *)(uintptr_t)page, 4096);
	return torture_result(came, 200, 0);
}

static void skip_instruction(int signal, siginfo_t *info, void *context)
{
	(void)signal;
	(void)info;
	(void)context;
	got.seen++;
}

/* Breakpoints that the program set itself: a signal that is forced resets a blocked handler. */
static const char *handles_breakpoints(void *state)
{
	unsigned before = got.seen;

	(void)state;
	for (int i = 0; i < 200; i++) {
		__asm__ volatile("int3");
		torture_spin(1000);
	}
	return torture_result(got.seen - before, 200, 0);
}

/* The trap flag: a signal after each instruction, by the program's own wish. */
static const char *steps_itself(void *state)
{
	unsigned before = got.seen;

	(void)state;
	for (int i = 0; i < 20; i++)
		__asm__ volatile("sub $128, %%rsp; pushfq; orl $0x100, (%%rsp); popfq;"
				 "nop; nop; nop; nop;"
				 "pushfq; andl $~0x100, (%%rsp); popfq; add $128, %%rsp"
				 ::: "memory", "cc");
	return got.seen - before == 20 * 7 ? NULL : torture_wrong("%u traps", got.seen - before);
}

/* Which calls a handler interrupts, and which continue: as without anybody. */
static const char *interrupts(void *state)
{
	struct target *target = state;
	struct timespec second = { 1, 0 }, left = { 0, 0 };
	const char *wrong;

	unblock(SIGUSR2, SIG_UNBLOCK);
	__atomic_store_n(&target->thread, gettid(), __ATOMIC_SEQ_CST);
	wrong = torture_result(nanosleep(&second, &left), -1, EINTR);
	unblock(SIGUSR2, SIG_BLOCK);
	/* A timer may be late by its slack: a little more than all of it can be left. */
	if (!wrong && (left.tv_sec > 1 || (!left.tv_sec && !left.tv_nsec)))
		wrong = torture_wrong("%ld.%09ld s were left", (long)left.tv_sec, left.tv_nsec);
	return wrong;
}

static void send_plain(void *state)
{
	struct target *target = state;

	syscall(SYS_tgkill, getpid(), target->thread, SIGUSR2);
}

static volatile sig_atomic_t alarms, virtual_alarms, profile_alarms;

static void handle_alarm(int signal)
{
	alarms += signal == SIGALRM;
	virtual_alarms += signal == SIGVTALRM;
	profile_alarms += signal == SIGPROF;
}

static const struct torture_case cases[] = {
	{ "a burst of queued signals", make_target, takes_burst, send_burst, NULL },
	{ "another", make_target, takes_burst, send_burst, NULL },
	{ "expirations of a timer", NULL, counts_expirations, NULL, NULL },
	{ "sigaltstack", NULL, uses_alternate_stack, NULL, NULL },
	{ "faults", NULL, handles_faults, NULL, NULL },
	{ "breakpoints", NULL, handles_breakpoints, NULL, NULL },
	{ "the trap flag", NULL, steps_itself, NULL, NULL },
	{ "nanosleep, interrupted", make_target, interrupts, send_plain, NULL },
};

static void catch(int signal, int flags, void (*handler)(int, siginfo_t *, void *))
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags };

	sigaction(signal, &action, NULL);
}

static void catch_all(void)
{
	struct sigaction plain = { .sa_handler = handle_alarm, .sa_flags = SA_RESTART };
	int blocked[] = { QUEUED, TIMER, SIGUSR1, SIGUSR2 };

	catch(QUEUED, SA_RESTART, handle_queued);
	catch(TIMER, SA_RESTART, handle_timer);
	catch(SIGUSR1, SA_ONSTACK, check_stack);
	catch(SIGSEGV, 0, jump_back);
	catch(SIGTRAP, 0, skip_instruction);
	sigaction(SIGALRM, &plain, NULL);
	sigaction(SIGVTALRM, &plain, NULL);
	sigaction(SIGPROF, &plain, NULL);
	plain.sa_handler = handle_plain;
	sigaction(SIGUSR2, &plain, NULL);
	for (size_t i = 0; i < sizeof(blocked) / sizeof(*blocked); i++)
		unblock(blocked[i], SIG_BLOCK);
}

int main(void)
{
	struct itimerval often = { { 0, 5000 }, { 0, 5000 } }, never = { 0 };
	struct account *account;
	uint64_t begun, ms;
	int failed;

	catch_all();
	account = account_begin(true);
	begun = torture_now_ns();
	setitimer(ITIMER_REAL, &often, NULL);
	setitimer(ITIMER_VIRTUAL, &often, NULL);
	setitimer(ITIMER_PROF, &often, NULL);
	failed = torture_run(cases, sizeof(cases) / sizeof(*cases));
	setitimer(ITIMER_REAL, &never, NULL);
	setitimer(ITIMER_VIRTUAL, &never, NULL);
	setitimer(ITIMER_PROF, &never, NULL);
	ms = (torture_now_ns() - begun) / 1000000;
	/* Two that come at the same time are one. */
	failed += torture_line("alarms", alarms > 0 && (uint64_t)alarms <= ms / 5 ? NULL :
			       torture_wrong("%d in %llu ms", (int)alarms, (unsigned long long)ms));
	failed += torture_line("virtual alarms", virtual_alarms > 0 ? NULL : "none");
	failed += torture_line("profiling alarms", profile_alarms > 0 ? NULL : "none");
	return failed + account_end(account) ? 1 : 0;
}
