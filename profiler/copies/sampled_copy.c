/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "sampled_copy.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* Within this, a thread has to stop. */
#define WAIT_MS 20u
/* For so long requests may wait for a thread that is recorded. */
#define BEHIND_NS 2000000u

struct sampled_copy *sampled_copy_of(struct sampling *sampling, const struct worker *worker)
{
	return &sampling->copies[worker - sampling->workers->all];
}

struct injector_request sampled_copy_request(const struct sampling *sampling,
					    const struct process *process, pid_t thread)
{
	struct injector_request request = {
		.task = INJECT_COPY, .program = process->pid, .thread = thread,
		.sibling = sampling->launched && process->pid == sampling->pid,
		.copies = 1, .wait_ms = WAIT_MS, .tracer = getpid(),
		.dead_count = process->dead_count, .hold = sampling->options.hold,
	};

	/*
	 * Recording takes time, during which the copy lives: only if calls end windows, or on
	 * request.
	 */
	if (process->ended_by_call || sampling->options.arms) {
		request.record_calls = sampling->options.record_calls;
		request.record_ms = sampling->options.record_ms;
		request.behind_ns = BEHIND_NS;
		if (sampling->options.most_pause_ns && sampling->options.most_pause_ns < BEHIND_NS)
			request.behind_ns = sampling->options.most_pause_ns;
	}

	memcpy(request.dead, process->dead_inner, sizeof(request.dead[0]) * process->dead_count);
	return request;
}

static void forget_reaped(struct process *process, const struct injector_request *request,
			  uint32_t reaped)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < process->dead_count; i++) {
		if (i < request->dead_count && reaped >> i & 1)
			continue;
		process->dead[left] = process->dead[i];
		process->dead_inner[left++] = process->dead_inner[i];
	}
	process->dead_count = left;
}

int sampled_copy_ask(struct sampling *sampling, struct process *process,
		     const struct injector_request *request, struct injector_answer *answer,
		     int *recording)
{
	if (injector_ask_recording(sampling->injector, request, answer, recording) < 0) {
		sampling->stopped = "injector";
		return -1;
	}
	forget_reaped(process, request, answer->reaped);
	return 0;
}

/* A dead copy: reaped by us, or by the program when one of its threads is stopped next. */
void sampled_copy_bury(struct sampled_copy *sampled)
{
	struct process *process = sampled->process;

	if (sampled->sibling) {
		waitpid(sampled->copy.pid, NULL, __WALL | WNOHANG);
	} else if (!sampled->orphaned && process->dead_count < PROCESS_MOST_DEAD) {
		process->dead[process->dead_count] = sampled->copy.pid;
		process->dead_inner[process->dead_count++] = sampled->copy.inner_pid;
	}
}

/* Faults after the last copy's death, on pages that were shared with it. */
void sampled_copy_charge_late(struct sampling *sampling, struct process *process, uint64_t faults)
{
	const double passed = (double)(process->cpu_ns - process->dead_cpu_ns);
	double late;

	if (!process->dead_cpu_ns)
		return;
	process->dead_cpu_ns = 0;
	late = (double)(faults - process->dead_faults) - process->fault_rate * passed;
	if (late > (double)process->shared_pages)
		late = (double)process->shared_pages;
	if (late <= 0)
		return;
	budget_charge_late(&sampling->budget, (uint64_t)late);
	sampling->rows.all[process->dead_row].added_faults += (uint64_t)late;
}
