/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How do the programs continue, and report? */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "torture.h"

#define MOST_CASES 64
#define WAKE_AFTER_MS 20

uint64_t torture_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

bool torture_more(void)
{
	static _Atomic uint64_t first_ns;
	const char *until = getenv("TORTURE_UNTIL"), *text = getenv("TORTURE_SECONDS");
	uint64_t now = torture_now_ns(), begun = 0;
	double seconds = text ? atof(text) : until ? 60 : 1;

	if (atomic_compare_exchange_strong(&first_ns, &begun, now))
		begun = now;
	return (double)(now - begun) < seconds * 1e9 && (!until || access(until, F_OK));
}

void torture_sleep_ms(unsigned ms)
{
	struct timespec left = { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000 };

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

void torture_spin(unsigned rounds)
{
	for (volatile unsigned i = 0; i < rounds; i++)
		;
}

const char *torture_wrong(const char *format, ...)
{
	va_list arguments;
	char *text;

	va_start(arguments, format);
	if (vasprintf(&text, format, arguments) < 0)
		text = NULL;
	va_end(arguments);
	return text ? text : "no memory";
}

int torture_line(const char *name, const char *wrong)
{
	printf("%s: %s%s\n", name, wrong ? "WRONG: " : "ok", wrong ? wrong : "");
	fflush(stdout);
	return wrong != NULL;
}

const char *torture_result(long got, long expected, int error)
{
	int actual = got == -1 ? errno : 0;

	if (got == expected && (got != -1 || actual == error))
		return NULL;
	return torture_wrong("returned %ld, %s; expected %ld, %s", got,
			     actual ? strerrorname_np(actual) : "no error", expected,
			     expected == -1 ? strerrorname_np(error) : "no error");
}

void torture_close_all(void)
{
	close_range(3, ~0u, 0);
}

struct running {
	const struct torture_case *each;
	void *state;
	const char *wrong;
	pthread_t thread, waker;
	int go[2];	/* a byte for each time that once() begins */
};

static void *wake_often(void *context)
{
	struct running *running = context;
	char byte;
	ssize_t got;

	while ((got = read(running->go[0], &byte, 1)) == 1) {
		torture_sleep_ms(WAKE_AFTER_MS);
		running->each->wake(running->state);
	}
	if (got < 0)
		running->wrong = torture_wrong("its waker: read: %s", strerrorname_np(errno));
	return NULL;
}

static void *run_often(void *context)
{
	struct running *running = context;
	unsigned round = 0;

	do {
		if (running->each->wake && write(running->go[1], "", 1) != 1)
			running->wrong = torture_wrong("write: %s", strerrorname_np(errno));
		if (!running->wrong)
			running->wrong = running->each->once(running->state);
		round++;
	} while (!running->wrong && torture_more());
	if (running->wrong)
		running->wrong = torture_wrong("round %u: %s", round, running->wrong);
	close(running->go[1]);
	return NULL;
}

int torture_run(const struct torture_case *cases, size_t count)
{
	static struct running running[MOST_CASES];
	int failed = 0;

	if (count > MOST_CASES)
		return torture_line("cases", "too many");
	for (size_t i = 0; i < count; i++) {
		running[i] = (struct running){ .each = &cases[i], .go = { -1, -1 } };
		if (cases[i].set_up && !(running[i].state = cases[i].set_up()))
			running[i].wrong = torture_wrong("set-up: %s", strerrorname_np(errno));
	}
	for (size_t i = 0; i < count; i++) {
		if (running[i].wrong)
			continue;
		if (cases[i].wake && (pipe(running[i].go) ||
		    pthread_create(&running[i].waker, NULL, wake_often, &running[i])))
			running[i].wrong = "no thread";
		else if (pthread_create(&running[i].thread, NULL, run_often, &running[i]))
			running[i].wrong = "no thread";
	}
	for (size_t i = 0; i < count; i++) {
		if (running[i].thread)
			pthread_join(running[i].thread, NULL);
		if (running[i].waker)
			pthread_join(running[i].waker, NULL);
		if (running[i].go[0] >= 0)
			close(running[i].go[0]);
		if (cases[i].tear_down && running[i].state)
			cases[i].tear_down(running[i].state);
		failed += torture_line(cases[i].name, running[i].wrong);
	}
	return failed;
}
