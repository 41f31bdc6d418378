/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Are the system calls that a thread makes after it was copied recorded, with what they gave it? */
#include "check.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "injected.h"
#include "recorder.h"

#define CALLS 300u

static volatile int *end;	/* shared with the program */

/* What it reads is what it has written: a number that grows. */
static void talks(int output)
{
	uint64_t sent = 0, received = 0, random;
	int channel[2];

	if (pipe(channel) < 0)
		_exit(1);
	for (sent = 1; !*end; sent++) {
		if (write(channel[1], &sent, 8) != 8 || read(channel[0], &received, 8) != 8 ||
		    received != sent || getrandom(&random, 8, 0) != 8)
			_exit(2);
		for (volatile unsigned i = 0; i < 2000; i++)
			;
	}
	_exit(write(output, &sent, 8) == 8 ? 7 : 3);
}

static const char *records_of(int recording, size_t *bytes)
{
	struct stat facts;
	void *records;

	if (fstat(recording, &facts) < 0)
		return NULL;
	*bytes = (size_t)facts.st_size;
	records = mmap(NULL, *bytes, PROT_READ, MAP_PRIVATE, recording, 0);
	return records == MAP_FAILED ? NULL : records;
}

/* The numbers follow each other.  Returns how many calls there were. */
static unsigned check_records(const char *records, size_t bytes)
{
	uint64_t last = 0, at_ns = 0;
	unsigned calls = 0;

	for (size_t at = 0; at < bytes; calls++) {
		const struct recorded_call *call = (const void *)(records + at);
		const struct recorded_output *output = (const void *)(call + 1);
		uint64_t value;

		CHECK(call->record_bytes >= sizeof(*call) && call->record_bytes % 8 == 0);
		CHECK(call->at_ns >= at_ns);
		CHECK_EQUAL(call->result, 8);
		CHECK_EQUAL(call->output_count, call->call == SYS_write ? 0 : 1);
		at_ns = call->at_ns;
		if (call->call == SYS_read) {
			CHECK_EQUAL(output->address, call->arguments[1]);
			CHECK_EQUAL(output->bytes, 8);
			memcpy(&value, output + 1, sizeof(value));
			CHECK(!last || value == last + 1);
			last = value;
		}
		at += call->record_bytes;
		if (!call->record_bytes)
			break;
	}
	return calls;
}

static void check_recording(struct injected *injected, const struct injector_request *request)
{
	struct injector_answer answer;
	const char *records;
	size_t bytes = 0;
	int recording;

	CHECK_EQUAL(injector_ask_recording(injected->socket, request, &answer, &recording), 0);
	CHECK_EQUAL(answer.copies, 1);
	CHECK_EQUAL(answer.recorded, CALLS);
	if (answer.copies)
		copy_take(&answer.copy[0]);
	copy_kill(&answer.copy[0]);
	records = records_of(recording, &bytes);
	CHECK(records);
	if (records) {
		CHECK_EQUAL(check_records(records, bytes), CALLS);
		munmap((void *)(uintptr_t)records, bytes);
	}
	close(recording);
}

TEST(calls_and_what_they_wrote)
{
	struct injector_request request;
	struct injected injected;
	cpu_set_t before, after;
	int status;

	end = mmap(NULL, sizeof(*end), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK_EQUAL(injected_start(&injected, talks), 0);
	injected_nap(20000);
	request = injected_request(&injected);
	request.sleeping = true;
	request.record_calls = CALLS;
	request.record_ms = 5000;
	CHECK_EQUAL(sched_getaffinity(injected.injector, sizeof(before), &before), 0);
	for (unsigned i = 0; i < 5; i++)
		check_recording(&injected, &request);
	/* It was on the program's CPU only while it recorded. */
	CHECK_EQUAL(sched_getaffinity(injected.injector, sizeof(after), &after), 0);
	CHECK(CPU_EQUAL(&before, &after));
	*end = 1;
	status = injected_end(&injected);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

/* It has waited for a second, and then always has something to do. */
static void falls_behind(int output)
{
	injected_nap(1000000);
	talks(output);
}

TEST(a_thread_that_cannot_keep_up)
{
	struct injector_request request;
	struct injector_answer answer;
	struct injected injected;
	int status, recording;

	*end = 0;
	CHECK_EQUAL(injected_start(&injected, falls_behind), 0);
	injected_nap(1100000);
	request = injected_request(&injected);
	request.sleeping = true;
	request.record_calls = 100000000;
	request.record_ms = 60000;
	request.behind_ns = 2000000;
	CHECK_EQUAL(injector_ask_recording(injected.socket, &request, &answer, &recording), 0);
	CHECK(answer.recorded > 0 && answer.behind);
	copy_take(&answer.copy[0]);
	copy_kill(&answer.copy[0]);
	close(recording);
	*end = 1;
	status = injected_end(&injected);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static int told[2];

/* It works, and then waits in a call until it is told to end. */
static void waits(int output)
{
	struct pollfd teller = { .fd = told[0], .events = POLLIN };

	for (volatile unsigned i = 0; i < 100000000; i++)
		;
	_exit(poll(&teller, 1, 1000000) == 1 && write(output, &teller, 8) == 8 ? 7 : 1);
}

TEST(a_call_that_takes_longer_than_is_recorded)
{
	struct injector_request request;
	struct injector_answer answer;
	struct injected injected;
	int status, recording;

	CHECK_EQUAL(pipe(told), 0);
	CHECK_EQUAL(injected_start(&injected, waits), 0);
	injected_nap(5000);
	request = injected_request(&injected);
	request.record_calls = CALLS;
	request.record_ms = 20;
	for (unsigned i = 0; i < 30; i++) {
		CHECK_EQUAL(injector_ask_recording(injected.socket, &request, &answer, &recording),
			    0);
		CHECK_EQUAL(answer.recorded, 0);
		CHECK_EQUAL(recording, -1);
		for (uint32_t j = 0; j < answer.copies; j++) {
			copy_take(&answer.copy[j]);
			copy_kill(&answer.copy[j]);
		}
		injected_nap(10000);
	}
	/* Nothing else has ended the wait. */
	CHECK_EQUAL(write(told[1], "", 1), 1);
	status = injected_end(&injected);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

static const struct {
	int64_t call;
	uint64_t arguments[6];
	int64_t result;
	int count;
	uint64_t address, bytes;	/* of the first output */
} known[] = {
	{ SYS_read, { 0, 4096, 100 }, 60, 1, 4096, 60 },
	{ SYS_read, { 0, 4096, 100 }, -EAGAIN, 0, 0, 0 },
	{ SYS_read, { 0, 4096, 100 }, 0, 0, 0, 0 },
	{ SYS_write, { 0, 4096, 100 }, 100, 0, 0, 0 },
	{ SYS_epoll_wait, { 3, 8192, 64, 10 }, 3, 1, 8192, 36 },
	{ SYS_poll, { 8192, 3, 10 }, 0, 1, 8192, 24 },
	{ SYS_fstat, { 3, 4096 }, 0, 1, 4096, sizeof(struct stat) },
	{ SYS_fstat, { 3, 4096 }, -EBADF, 0, 0, 0 },
	{ SYS_getrandom, { 4096, 32, 0 }, 32, 1, 4096, 32 },
	{ SYS_sendfile, { 1, 2, 0, 100 }, 100, 0, 0, 0 },
	/* Locks with priority inheritance are written by the kernel; what others do is not known. */
	{ SYS_futex, { 4096, 6 }, 0, -1, 0, 0 },
	{ SYS_process_vm_readv, { 1 }, 8, -1, 0, 0 },
	{ 9999, { 0 }, 0, -1, 0, 0 },
};

TEST(outputs_of_calls)
{
	struct recorded_output outputs[RECORDED_MOST_OUTPUTS];

	for (size_t i = 0; i < sizeof(known) / sizeof(*known); i++) {
		struct recorded_call call = { .call = known[i].call, .result = known[i].result };

		memcpy(call.arguments, known[i].arguments, sizeof(call.arguments));
		outputs[0] = (struct recorded_output){ 0, 0 };
		CHECK_EQUAL(recorded_outputs(getpid(), &call, outputs), known[i].count);
		CHECK_EQUAL(outputs[0].address, known[i].address);
		CHECK_EQUAL(outputs[0].bytes, known[i].bytes);
	}
}

TEST(outputs_of_vectors)
{
	struct recorded_output outputs[RECORDED_MOST_OUTPUTS];
	char first[10], second[20];
	struct iovec vectors[2] = { { first, sizeof(first) }, { second, sizeof(second) } };
	struct recorded_call call = {
		.call = SYS_readv, .arguments = { 0, (uint64_t)(uintptr_t)vectors, 2 },
		.result = 15,
	};

	CHECK_EQUAL(recorded_outputs(getpid(), &call, outputs), 2);
	CHECK_EQUAL(outputs[0].address, (uint64_t)(uintptr_t)first);
	CHECK_EQUAL(outputs[0].bytes, 10);
	CHECK_EQUAL(outputs[1].address, (uint64_t)(uintptr_t)second);
	CHECK_EQUAL(outputs[1].bytes, 5);
}

CHECK_MAIN
