/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "copy_request.h"

#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "clock.h"
#include "program_facts.h"
#include "thread_copy.h"
#include "thread_facts.h"
#include "thread_stop.h"
#include "tracee.h"
#include "unforked_memory.h"

/* Dead copies that are the program's children; it knows nothing of them. */
static void reap(struct thread_stop *stop, const struct injector_request *request,
		 struct injector_answer *answer)
{
	for (uint32_t i = 0; i < request->dead_count && i < 32; i++) {
		const uint64_t arguments[6] = { (uint64_t)request->dead[i], 0,
						(uint64_t)(WNOHANG | __WALL) };
		int64_t result = thread_stop_call(stop, SYS_wait4, arguments, NULL);

		if (result == TRACEE_LOST)
			return;
		if (result != 0)
			answer->reaped |= UINT32_C(1) << i;
	}
}

/* The copies have stopped by themselves: give them up, or park them. */
static void settle(const struct injector_request *request, struct injector_answer *answer)
{
	uint32_t parked = 0;

	for (uint32_t i = 0; i < answer->copies; i++) {
		if (thread_copy_park(&answer->copy[i], request) < 0)
			continue;
		answer->copy[parked++] = answer->copy[i];
	}
	if (parked < answer->copies && answer->refusal == INJECTED)
		answer->refusal = REFUSED_FAILED;
	answer->copies = parked;
}

/* Memory that only the next copy can have. */
static bool is_missing(const struct injector_request *request, struct program_facts *facts,
		       pid_t copy)
{
	struct unforked_memory memory;

	if (facts->has_unforked || !unforked_memory_lacks(request->program, request->thread, copy))
		return false;
	if (unforked_memory_read(request->program, request->thread, &memory) == 0)
		facts->has_unforked = memory.count > 0;
	unforked_memory_free(&memory);
	return facts->has_unforked;
}

static void fill_in(const struct thread_stop *stop, struct injector_answer *answer)
{
	answer->restarted = stop->restarted;
	answer->mended = stop->mended;
	answer->rseq_aborted = stop->rseq_aborted;
}

static void work(const struct injector_request *request, struct program_facts *facts,
		 struct injector_answer *answer)
{
	struct unforked_memory unforked = { .ranges = NULL };
	struct thread_stop stop;
	int32_t error = 0;

	answer->refusal = thread_stop_begin(&stop, request->program, request->thread,
					    request->sleeping, request->wait_ms, &error);
	answer->error = error;
	fill_in(&stop, answer);
	if (answer->refusal == INJECTED) {
		/* Now: the thread could map other memory there, to which the advice would then be given. */
		if (facts->has_unforked && request->task == INJECT_COPY)
			unforked_memory_read(request->program, request->thread, &unforked);
		if (thread_stop_prepare(&stop) == 0) {
			reap(&stop, request, answer);
			if (request->task == INJECT_COPY)
				answer->refusal = thread_copy_make(&stop, request, &unforked,
								   answer);
		}
		fill_in(&stop, answer);
		if (thread_stop_restore(&stop) < 0)
			answer->refusal = REFUSED_GONE;
		thread_stop_detach(&stop);
		answer->pause_ns = clock_ns() - stop.since_ns;
	}
	unforked_memory_free(&unforked);
	settle(request, answer);
}

void copy_request_serve(const struct injector_request *request, struct injector_answer *answer)
{
	struct program_facts *facts = program_facts_of(request->program, request->thread);
	struct thread_facts thread;

	memset(answer, 0, sizeof(*answer));
	answer->huge_bytes = facts->huge_bytes;
	if (thread_facts_read(request->program, request->thread, &thread) == 0)
		answer->resident_bytes = thread.resident_bytes;
	if (request->copies > INJECTOR_MOST_COPIES)
		answer->refusal = REFUSED_FAILED;
	else if (request->task == INJECT_COPY)
		answer->refusal = facts->refusal;
	if (answer->refusal != INJECTED)
		return;
	work(request, facts, answer);
	if (answer->copies)
		answer->missing = is_missing(request, facts, answer->copy[0].pid);
}
