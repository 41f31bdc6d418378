/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is a running program copied, and does it notice nothing? */
#include "check.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "injected.h"

#define COPIES 100u
#define LEAST_TURNS 1000000u

static volatile int *end;	/* shared with the program */

static uint64_t step(uint64_t value)
{
	return value * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
}

/* Its output depends on each turn, and on a floating-point register. */
static void count(int output)
{
	volatile uint64_t *memory = malloc(1024 * sizeof(*memory));
	struct { uint64_t value, turns; double sum; } result = { 1, 0, 0 };

	for (unsigned i = 0; i < 1024; i++)
		memory[i] = i;
	while (!*end || result.turns < LEAST_TURNS) {
		result.value = step(result.value) + memory[result.value >> 54];
		result.sum += 0.5;
		result.turns++;
	}
	if (write(output, &result, sizeof(result)) != sizeof(result))
		_exit(1);
	_exit(7);
}

static void check_copy(struct copy *copy, const struct injected *injected)
{
	const uint64_t none[6] = { 0 };
	uint64_t word = 0;
	unsigned char code[2];

	CHECK(copy->pid > 0);
	CHECK(copy->inner_pid > 0);
	CHECK_EQUAL(copy->program, injected->program);
	CHECK_EQUAL(copy_take(copy), 0);
	CHECK_EQUAL(copy_read(copy, copy->start.rsp, &word, sizeof(word)), 0);
	CHECK_EQUAL(copy_write(copy, copy->start.rsp, &word, sizeof(word)), 0);
	CHECK_EQUAL(copy_read(copy, copy->call_instruction, code, sizeof(code)), 0);
	CHECK_EQUAL(code[0], 0x0f);
	CHECK_EQUAL(code[1], 0x05);
	CHECK_EQUAL(copy_call(copy, &copy->start, SYS_getpid, none), copy->inner_pid);
	copy_kill(copy);
	CHECK_EQUAL(copy->pid, 0);
}

TEST(a_counting_program_is_copied_a_hundred_times)
{
	struct { uint64_t value, turns; double sum; } result = { 0, 0, 0 }, expected = { 1, 0, 0 };
	struct injector_request request;
	struct injector_answer answer;
	struct injected injected;
	unsigned made = 0;
	int status;

	end = mmap(NULL, sizeof(*end), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK_EQUAL(injected_start(&injected, count), 0);
	injected_nap(20000);
	request = injected_request(&injected);
	for (unsigned i = 0; i < COPIES; i++) {
		CHECK_EQUAL(injector_ask(injected.socket, &request, &answer), 0);
		CHECK_EQUAL(answer.refusal, INJECTED);
		CHECK_EQUAL(answer.error, 0);
		CHECK_EQUAL(answer.copies, 1);
		if (answer.copies != 1)
			break;
		check_copy(&answer.copy[0], &injected);
		made++;
	}
	CHECK_EQUAL(made, COPIES);
	*end = 1;
	CHECK_EQUAL(read(injected.from_program, &result, sizeof(result)), sizeof(result));
	status = injected_end(&injected);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	for (uint64_t i = 0; i < result.turns; i++)
		expected.value = step(expected.value) + (expected.value >> 54);
	CHECK(result.value == expected.value);
	CHECK(result.sum == (double)result.turns * 0.5);
	/* All copies are reaped, too. */
	CHECK(waitpid(-1, NULL, __WALL) < 0 && errno == ECHILD);
}

static void wait_forever(int output)
{
	(void)output;
	for (;;)
		pause();
}

/* Who reads a pipe of its starter's waits for its end. */
TEST(the_injector_keeps_no_file_of_its_starters_open)
{
	struct injector_request request;
	struct injector_answer answer;
	struct injected injected;
	int ends[2];
	char byte;

	CHECK_EQUAL(pipe2(ends, O_NONBLOCK), 0);
	CHECK_EQUAL(injected_start(&injected, wait_forever), 0);
	request = injected_request(&injected);
	CHECK_EQUAL(injector_ask(injected.socket, &request, &answer), 0);
	kill(injected.program, SIGKILL);
	waitpid(injected.program, NULL, 0);
	close(ends[1]);
	CHECK_EQUAL(read(ends[0], &byte, 1), 0);
	close(ends[0]);
	close(injected.socket);
	close(injected.from_program);
	waitpid(injected.injector, NULL, 0);
}

CHECK_MAIN
