/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Do 64 threads, and short-lived ones, work together, also when the first thread is gone? */
#include <errno.h>
#include <fenv.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

#include "torture.h"

#define THREADS 64

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned long under_lock;
static _Atomic unsigned long in_all;
static _Thread_local unsigned long own;
static _Atomic unsigned running = THREADS;
static const char *wrong;

/* Two contexts that go back and forth, each with a rounding mode of its own. */
static ucontext_t here, there;

static void other_side(void)
{
	volatile double third = 3;

	for (;;) {
		fesetround(FE_UPWARD);
		if (1 / third <= 0.33333333333333331)
			wrong = "rounded down in the other context";
		swapcontext(&there, &here);
	}
}

static void *switches(void *context)
{
	static char stack[65536];
	volatile double third = 3;

	getcontext(&there);
	there.uc_stack.ss_sp = stack;
	there.uc_stack.ss_size = sizeof(stack);
	makecontext(&there, other_side, 0);
	do {
		for (int i = 0; i < 1000; i++) {
			swapcontext(&here, &there);
			if (1 / third > 0.33333333333333331)
				wrong = "rounded up in this context";
		}
	} while (torture_more());
	running--;
	return context;
}

/* Vector registers, the stack and thread-local memory survive. */
static void *computes(void *context)
{
	unsigned long number = (unsigned long)context;
	double sums[8] = { 0 };

	do {
		for (int i = 0; i < 20000; i++)
			for (int k = 0; k < 8; k++)
				sums[k] += (double)(number + (unsigned long)k);
		for (int k = 0; k < 8; k++) {
			/* All of these numbers are whole, so no rounding comes in. */
			if (fmod(sums[k], (double)(number + (unsigned long)k)) > 0)
				wrong = "a sum is wrong";
			sums[k] = 0;
		}
		own++;
		in_all++;
		pthread_mutex_lock(&mutex);
		under_lock++;
		pthread_mutex_unlock(&mutex);
		/* There are more threads than processors. */
		torture_sleep_ms(20);
	} while (torture_more());
	running--;
	return (void *)own;
}

static void *nothing(void *context)
{
	return context;
}

static void *makes_threads(void *context)
{
	pthread_t each[8];

	do {
		for (size_t i = 0; i < 8; i++)
			if (pthread_create(&each[i], NULL, nothing, (void *)(i + 1)))
				wrong = "no thread";
		for (size_t i = 0; i < 8; i++) {
			void *result;

			if (pthread_join(each[i], &result) || result != (void *)(i + 1))
				wrong = "a thread's result is wrong";
		}
	} while (torture_more());
	running--;
	return context;
}

static void *reports(void *context)
{
	pthread_t *threads = context;
	unsigned long sum = 0;
	void *result;

	for (unsigned i = 2; i < THREADS; i++) {
		pthread_join(threads[i], &result);
		sum += (unsigned long)result;
	}
	while (running)
		torture_sleep_ms(1);
	torture_line("threads", wrong);
	torture_line("each for itself", torture_result((long)sum, (long)in_all, 0));
	torture_line("under a lock", torture_result((long)under_lock, (long)in_all, 0));
	exit(wrong ? 1 : 17);
}

/* With an argument the first thread ends before the others. */
int main(int argc, char **argv)
{
	static pthread_t threads[THREADS];
	pthread_t reporter;

	(void)argv;
	torture_more();
	for (unsigned long i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, i == 0 ? switches : i == 1 ? makes_threads :
				   computes,
				   (void *)(i + 1)))
			return torture_line("threads", "cannot be made");
	if (pthread_create(&reporter, NULL, reports, threads))
		return torture_line("threads", "cannot be made");
	if (argc > 1)
		pthread_exit(NULL);
	pthread_join(reporter, NULL);
	return 0;
}
