/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Programs with memory of their own, and copies of them that arms are forked from. */
#ifndef TLBCOST_TESTS_ARM_PROGRAMS_H
#define TLBCOST_TESTS_ARM_PROGRAMS_H

#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "check.h"
#include "injected.h"
#include "replay.h"

#define BYTES (UINT64_C(32) << 20)
#define WORDS (BYTES / sizeof(uint64_t))
#define HUGE_PAGE (UINT64_C(2) << 20)
#define MS UINT64_C(1000000)

/* Of programs: what they share with this test. */
static volatile uint64_t *shared;

static inline uint64_t *table(void)
{
	uint64_t *words = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			       -1, 0);

	madvise(words, BYTES, MADV_NOHUGEPAGE);
	for (uint64_t i = 0; i < WORDS; i++)
		words[i] = i;
	return words;
}

static inline void say(int output)
{
	if (write(output, "x", 1) != 1)
		_exit(1);
}

/* Random updates: the state is in registers, each word is met rarely. */
static inline void updates(int output)
{
	uint64_t *words = table(), state = 1;

	say(output);
	for (;;) {
		for (unsigned i = 0; i < 1000000; i++) {
			state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
			words[(state >> 33) % WORDS] += state;
		}
		++*shared;
	}
}

/* Reads, and has said where its memory is. */
static inline void reads(int output)
{
	const uint64_t *words = table();

	*shared = (uintptr_t)words;
	say(output);
	for (volatile uint64_t sum = 0;; sum++)
		sum += words[sum % WORDS];
}

/* It never makes a call. */
static inline void spins(int output)
{
	say(output);
	for (volatile uint64_t i = 0;; i++)
		;
}

/* A copy of a program that is under way, and its next calls; 0, or -1 and the test is over. */
static inline int begin_recorded(struct injected *injected, struct copy *copy,
				 void (*program)(int), uint32_t calls, struct recording *recording)
{
	struct injector_request request;
	struct injector_answer answer;
	int recorded = -1;
	char byte;

	shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(shared != MAP_FAILED);
	CHECK_EQUAL(injected_start(injected, program), 0);
	CHECK_EQUAL(read(injected->from_program, &byte, 1), 1);
	injected_nap(20000);
	request = injected_request(injected);
	request.record_calls = calls;
	request.record_ms = 20000;
	CHECK_EQUAL(injector_ask_recording(injected->socket, &request, &answer, &recorded), 0);
	CHECK_EQUAL(answer.refusal, INJECTED);
	CHECK_EQUAL(recording_open(recording, recorded), 0);
	if (recorded >= 0)
		close(recorded);
	if (answer.refusal != INJECTED)
		return -1;
	*copy = answer.copy[0];
	CHECK_EQUAL(copy_take(copy), 0);
	return 0;
}

/* Without its calls. */
static inline int begin(struct injected *injected, struct copy *copy, void (*program)(int))
{
	struct recording none;

	return begin_recorded(injected, copy, program, 0, &none);
}

static inline void end(struct injected *injected, struct copy *copy)
{
	copy_kill(copy);
	kill(injected->program, SIGKILL);
	injected_end(injected);
	munmap((void *)(uintptr_t)shared, 4096);
}

#endif
