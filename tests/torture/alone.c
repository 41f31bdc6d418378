/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Signals, faults and interrupted calls of a program that never starts a thread or a process. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BYTES (1u << 20)
#define PAGE 4096u

static volatile sig_atomic_t caught;
static volatile unsigned long faulted;
static sigjmp_buf back;

static void say(const char *what, unsigned long value)
{
	printf("%s: %lu\n", what, value);
	fflush(stdout);
}

static void on(int number, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags };

	/* All of them are blocked in the handler, as careful programs do. */
	sigfillset(&action.sa_mask);
	if (sigaction(number, &action, NULL) < 0)
		abort();
}

static void tick(int number, siginfo_t *info, void *context)
{
	volatile double half = 0.5;

	(void)number;
	(void)info;
	(void)context;
	/* Vector registers are the interrupted code's afterwards. */
	half = half * half + (double)caught;
	caught = caught + 1;
}

static void every_us(long us)
{
	const struct itimerval time = { { 0, us }, { 0, us } };

	setitimer(ITIMER_REAL, &time, NULL);
}

/* The same sum whenever a signal comes. */
static unsigned long work(unsigned rounds)
{
	unsigned long sum = 1;
	double product = 1;

	for (unsigned i = 1; i < rounds; i++) {
		sum = sum * 6364136223846793005u + i;
		product = product * 1.0000001 + (double)(sum >> 60);
		if (sum & 4096)
			sum ^= sum >> 7;
	}
	return sum ^ (unsigned long)product;
}

static void signals_in_a_loop(void)
{
	unsigned long sum = 0;

	caught = 0;
	on(SIGALRM, tick, SA_RESTART);
	every_us(500);
	while (caught < 50)
		sum = work(200000);
	every_us(0);
	say("sum", sum);
}

static void signals_in_string_instructions(void)
{
	char *from = malloc(BYTES), *to = malloc(BYTES);
	unsigned long wrong = 0;

	caught = 0;
	for (unsigned i = 0; i < BYTES; i++)
		from[i] = (char)(i * 7);
	every_us(300);
	while (caught < 30) {
		char *source = from, *target = to;
		size_t left = BYTES;

		memset(to, 0, BYTES);
		__asm__ volatile("rep movsb" : "+S"(source), "+D"(target), "+c"(left) : : "memory");
		wrong += memcmp(from, to, BYTES) != 0;
	}
	every_us(0);
	say("wrong copies", wrong);
	free(from);
	free(to);
}

static void open_page(int number, siginfo_t *info, void *context)
{
	char *page = (char *)((uintptr_t)info->si_addr & ~(uintptr_t)(PAGE - 1));

	(void)number;
	(void)context;
	faulted++;
	if (mprotect(page, PAGE, PROT_READ | PROT_WRITE) < 0)
		_exit(9);
}

static void faults_that_are_repaired(void)
{
	unsigned char *memory = mmap(NULL, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned long sum = 0;

	on(SIGSEGV, open_page, 0);
	for (unsigned i = 0; i < BYTES; i += 64)
		memory[i] = (unsigned char)(memory[i] + i / 64 + 3);
	for (unsigned i = 0; i < BYTES; i++)
		sum += memory[i];
	say("faults", faulted);
	say("sum", sum);
	munmap(memory, BYTES);
}

static void jump_back(int number, siginfo_t *info, void *context)
{
	(void)context;
	siglongjmp(back, number + (info->si_code == SI_TKILL ? 100 : 0));
}

static void jumps_out_of_handlers(void)
{
	int number;

	on(SIGFPE, jump_back, 0);
	on(SIGILL, jump_back, SA_ONSTACK);
	on(SIGUSR1, jump_back, 0);
	number = sigsetjmp(back, 1);
	if (number == 0)
		__asm__ volatile("xorl %%eax, %%eax\n\tcltd\n\tidivl %%eax" : : : "eax", "edx", "cc");
	say("division", (unsigned long)number);
	number = sigsetjmp(back, 1);
	if (number == 0)
		__asm__ volatile("ud2");
	say("instruction", (unsigned long)number);
	number = sigsetjmp(back, 1);
	if (number == 0)
		raise(SIGUSR1);
	say("raised", (unsigned long)number);
	caught = 0;
	raise(SIGTRAP);
	say("traps", (unsigned long)caught);
}

static void calls_that_are_interrupted(void)
{
	const struct timespec second = { 1, 0 };
	sigset_t none, all, old;
	int ends[2], error;
	siginfo_t info;
	char byte;

	on(SIGALRM, tick, 0);
	if (pipe(ends) < 0)
		abort();
	every_us(2000);
	error = read(ends[0], &byte, 1) < 0 ? errno : 0;
	say("read", (unsigned long)error);
	error = nanosleep(&second, NULL) < 0 ? errno : 0;
	say("nanosleep", (unsigned long)error);
	sigemptyset(&none);
	error = sigsuspend(&none) < 0 ? errno : 0;
	say("sigsuspend", (unsigned long)error);
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, &old);
	say("sigwaitinfo", (unsigned long)sigwaitinfo(&all, &info));
	work(1000000);
	sigprocmask(SIG_SETMASK, &old, NULL);
	every_us(0);
	/* Ignored signals interrupt nothing. */
	signal(SIGALRM, SIG_IGN);
	every_us(1000);
	error = nanosleep(&(struct timespec){ 0, 20000000 }, NULL) < 0 ? errno : 0;
	every_us(0);
	say("nanosleep", (unsigned long)error);
}

static void keeps_its_handlers(void)
{
	static const int numbers[] = { SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGUSR1 };

	for (unsigned i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		struct sigaction now;

		sigaction(numbers[i], NULL, &now);
		say("handled", now.sa_handler != SIG_DFL && now.sa_handler != SIG_IGN);
	}
}

int main(int argc, char **argv)
{
	static char stack[65536];
	const stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };

	sigaltstack(&other, NULL);
	on(SIGTRAP, tick, 0);
	signals_in_a_loop();
	signals_in_string_instructions();
	faults_that_are_repaired();
	jumps_out_of_handlers();
	calls_that_are_interrupted();
	keeps_its_handlers();
	/* And ends as asked. */
	if (argc > 1)
		raise(atoi(argv[1]));
	return argc > 1 ? 1 : 7;
}
