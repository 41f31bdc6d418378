/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does an arm go on by itself at its calls, as its original did, and is nothing of that seen? */
#include <sys/syscall.h>

#include "answers.h"
#include "arm_programs.h"
#include "arms.h"

#define CALLS 4000u
#define ATTEMPTS 10

/* A server of its own requests: what it reads decides which words it updates. */
static void serves(int output)
{
	uint64_t *words = table();
	uint64_t request = 1, answer = 0;
	struct timespec before, now;
	int channel[2];

	if (pipe(channel) < 0)
		_exit(1);
	clock_gettime(CLOCK_MONOTONIC, &before);
	say(output);
	for (;;) {
		request = request * UINT64_C(6364136223846793005) + 1442695040888963407u;
		if (write(channel[1], &request, sizeof(request)) != sizeof(request) ||
		    read(channel[0], &answer, sizeof(answer)) != sizeof(answer))
			_exit(1);
		for (unsigned i = 0; i < 4000; i++) {
			answer = answer * UINT64_C(6364136223846793005) + 1;
			words[(answer >> 33) % WORDS] += answer;
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
		/* Time never goes back; a call that nobody recorded says that it did. */
		if (now.tv_sec < before.tv_sec ||
		    (now.tv_sec == before.tv_sec && now.tv_nsec < before.tv_nsec))
			_exit(2);
		before = now;
		++*shared;
	}
}

static void end_unnoticed(struct injected *injected, struct copy *copy,
			  struct recording *recording)
{
	const uint64_t before = *shared;

	recording_close(recording);
	copy_kill(copy);
	/* It has noticed nothing. */
	injected_nap(50000);
	CHECK(before == 0 || *shared > before);
	end(injected, copy);
}

/* Not on kernels before 5.11, nor where something else hides it. */
static bool can_answer(void)
{
	uint8_t selector = 0;
	const pid_t child = fork();
	int status;

	if (child == 0)
		_exit(syscall(SYS_prctl, 59, 1, 0, 0, &selector) == 0 ? 0 : 1);
	return waitpid(child, &status, 0) == child && status == 0;
}

static bool all_good(const struct slice_rows *rows)
{
	for (size_t i = 0; i < rows->count; i++)
		if (strcmp(rows->all[i].outcome, "good") != 0)
			return false;
	return rows->count > 0;
}

TEST(arms_are_measured_with_their_calls)
{
	const struct arms_options options = {
		.slices = 2, .huge_page_bytes = UINT64_C(2) << 20, .time_ns = 60000 * MS,
	};
	struct slice_rows rows = { 0 };
	struct recording recording;
	struct injected injected;
	struct copy copy;
	uint64_t random = 7;

	if (!can_answer())
		CHECK_SKIP("this kernel hands no calls to programs");
	if (begin_recorded(&injected, &copy, serves, CALLS, &recording) == 0) {
		CHECK_EQUAL(recording_calls(&recording), CALLS);
		/* On a busy machine a slice may be interrupted, but not each time. */
		for (int attempt = 0; attempt < ATTEMPTS && !all_good(&rows); attempt++) {
			slice_rows_free(&rows);
			CHECK_EQUAL(arms_measure(&rows, &options, &copy, &recording, 3, &random), 0);
		}
		CHECK_EQUAL(rows.count, ARM_KINDS);
	}
	for (size_t i = 0; i < rows.count; i++) {
		const struct slice_row *row = &rows.all[i];

		CHECK_EQUAL(strcmp(row->outcome, "good"), 0);
		CHECK_EQUAL(row->slice, 0);
		CHECK(row->stops > CALLS / 2 && row->stops < CALLS);
		CHECK(row->time_ns > 0);
		CHECK(row->changed_pages > 100);
		/* Ours, and what the kernel writes. */
		CHECK(row->different_pages <= 8);
	}
	slice_rows_free(&rows);
	end_unnoticed(&injected, &copy, &recording);
}

/* An arm of a program that is answered from records of one call; how it ended. */
static enum arm_end answered(void (*program)(int), unsigned count, bool marks, uint64_t time_ns,
			     struct answers *state)
{
	struct recording recording, other;
	enum arm_end how = ARM_GONE;
	struct injected injected;
	struct copy copy;
	struct arm arm;
	uint64_t area = 0;
	uint8_t *records = answers_loop_records(count, &other);

	if (begin_recorded(&injected, &copy, program, 0, &recording) == 0) {
		CHECK_EQUAL(arm_fork(&arm, &copy), 0);
		CHECK_EQUAL(answers_lay(&arm, &area, &other, marks), 0);
		how = answers_run(&arm, area, time_ns, state);
		arm_kill(&arm, &copy);
		CHECK_EQUAL(arm.copy.pid, 0);
	}
	free(records);
	end_unnoticed(&injected, &copy, &recording);
	return how;
}

TEST(another_call_ends_it)
{
	struct answers state = { .marks = 0 };

	if (!can_answer())
		CHECK_SKIP("this kernel hands no calls to programs");
	CHECK_EQUAL(answered(serves, 100, false, 2000 * MS, &state), ARM_CALL);
	CHECK(state.at_call == SYS_read || state.at_call == SYS_write);
	CHECK_EQUAL(state.calls, 0);
}

TEST(what_answers_take_is_measured)
{
	struct answers state = { .marks = 0 };

	if (!can_answer())
		CHECK_SKIP("this kernel hands no calls to programs");
	CHECK_EQUAL(answered(serves, 1600, true, 2000 * MS, &state), ARM_CHECKED);
	CHECK_EQUAL(state.calls, 1600);
	CHECK_EQUAL(state.mark_every, 100);
	CHECK_EQUAL(state.marks, ANSWERS_MARKS);
	for (unsigned i = 1; i < ANSWERS_MARKS; i++)
		CHECK(state.mark_ns[i] > state.mark_ns[i - 1]);
}

TEST(an_arm_that_makes_no_call_is_given_up)
{
	struct answers state = { .marks = 0 };

	if (!can_answer())
		CHECK_SKIP("this kernel hands no calls to programs");
	CHECK_EQUAL(answered(spins, 10, false, 50 * MS, &state), ARM_LATE);
}

CHECK_MAIN
