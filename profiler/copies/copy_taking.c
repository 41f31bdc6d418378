/* SPDX-License-Identifier: GPL-2.0-or-later */
/* An instant has come: which thread is copied, and which worker follows the copy? */
#include "sampled_copy.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "clock.h"
#include "headroom.h"
#include "strata.h"
#include "waiting.h"

/* How often a thread may slip away before the instant is given up. */
#define MOST_TRIES 200u

static void fill_in(struct copies_row *row, const struct process *process, pid_t thread,
		    const struct injector_answer *answer)
{
	row->pid = process->pid;
	row->tid = thread;
	row->error = answer->error;
	row->resident_bytes = answer->resident_bytes;
	if (!answer->pause_ns)
		return;
	row->pause_ns = answer->pause_ns;
	row->clone_ns = answer->clone_ns;
	row->restarted = answer->restarted;
	row->rewound = answer->rewound;
	row->rseq_aborted = answer->rseq_aborted;
	row->recorded = answer->recorded;
}

int sampled_copy_give(struct sampling *sampling, struct worker *worker,
		      const struct sampled_copy *sampled, const struct worker_job *job,
		      int recording)
{
	struct copies_row *row = &sampling->rows.all[sampled->row];

	row->result = "lost";
	row->given = true;
	if (workers_give(worker, job, recording) < 0)
		return -1;
	*sampled_copy_of(sampling, worker) = *sampled;
	sampled_copy_of(sampling, worker)->given_ns = clock_ns();
	return 0;
}

/* To a worker, or to wait for one (NULL). */
static void give(struct sampling *sampling, struct worker *worker, struct process *process,
		 const struct injector_request *request, const struct injector_answer *answer,
		 const struct process_status *status, uint64_t lost_ns, int recording)
{
	struct copies_row *row = strata_conclude(sampling, "lost");
	struct worker_job job = {
		.what = JOB_FOLLOW, .copy = answer->copy[0], .image = process->image,
		.time_ns = waiting_share(sampling),
	};
	struct sampled_copy sampled = {
		.alive = true, .copy = answer->copy[0], .sibling = request->sibling,
		.orphaned = answer->orphaned,
		.process = process, .image = process->image, .faults = status->minor_faults,
		.cpu_ns = process->cpu_ns, .begun_cpu_ns = sampling->processes.cpu_ns,
		.fault_rate = process->fault_rate, .lost_ns = lost_ns,
	};
	int rc = -1;

	if (row) {
		fill_in(row, process, request->thread, answer);
		sampled.row = (size_t)(row - sampling->rows.all);
		job.start = (struct window_start){ row->window, row->at_cpu_ns };
		rc = worker ? sampled_copy_give(sampling, worker, &sampled, &job, recording) :
			      waiting_add(sampling, &sampled, &job, recording);
	}
	if (rc < 0) {
		kill(sampled.copy.pid, SIGKILL);
		sampled_copy_bury(&sampled);
	}
}

/* The thread slipped away: another time. */
static bool is_passing(enum injector_refusal refusal)
{
	return refusal == REFUSED_SLEEPING || refusal == REFUSED_GONE || refusal == REFUSED_BUSY;
}

/* There is no copy. */
static void note_refusal(struct sampling *sampling, const struct process *process, pid_t thread,
			 const struct injector_answer *answer)
{
	struct copies_row *row;

	if (is_passing(answer->refusal) && ++sampling->tries < MOST_TRIES)
		return;
	sampling->refused += !is_passing(answer->refusal);
	row = strata_conclude(sampling, copies_refusal(answer->refusal));
	if (row)
		fill_in(row, process, thread, answer);
}

static struct process_pace pace_of(const struct process *process)
{
	return (struct process_pace){ clock_ns(), process_user_ns(process->pid) };
}

/*
 * The CPU time that it lacks since then, against its rate between the last copy and this one.
 * While it is recorded, each of its calls waits for us twice.
 */
static uint64_t lost_since(const struct process *process, const struct process_pace *begin)
{
	const struct process_pace *before = &process->resumed, now = pace_of(process);
	double lost;

	if (!before->at_ns || begin->at_ns <= before->at_ns || !process->user_ns)
		return 0;
	lost = (double)(begin->user_ns - before->user_ns) /
		       (double)(begin->at_ns - before->at_ns) *
		       (double)(now.at_ns - begin->at_ns) -
	       (double)(now.user_ns - begin->user_ns);
	return lost > 0 ? (uint64_t)(lost * (double)process->cpu_ns / (double)process->user_ns) : 0;
}

static void copy_thread(struct sampling *sampling, struct worker *worker, struct process *process,
			pid_t thread, const struct process_status *status)
{
	const struct injector_request request = sampled_copy_request(sampling, process, thread);
	const struct process_pace begin = pace_of(process);
	struct injector_answer answer;
	uint64_t lost_ns;
	int recording;

	sampled_copy_charge_late(sampling, process, status->minor_faults);
	if (sampled_copy_ask(sampling, process, &request, &answer, &recording) < 0)
		return;
	if (answer.copies)
		budget_note_pause(&sampling->budget, answer.pause_ns, status->resident_bytes);
	lost_ns = lost_since(process, &begin);
	process->resumed = pace_of(process);
	if (answer.copies && answer.missing) {
		/* It lacks memory: the next one will have it. */
		struct sampled_copy useless = {
			.copy = answer.copy[0], .sibling = request.sibling,
			.orphaned = answer.orphaned, .process = process,
		};

		kill(useless.copy.pid, SIGKILL);
		sampled_copy_bury(&useless);
		if (++sampling->tries >= MOST_TRIES)
			strata_conclude(sampling, "incomplete");
	} else if (answer.copies) {
		sampling->refused = 0;
		sampling->made++;
		give(sampling, worker, process, &request, &answer, status, lost_ns, recording);
	} else {
		note_refusal(sampling, process, thread, &answer);
	}
	if (recording >= 0)
		close(recording);
}

/* Why a process is not to be copied now, if so. */
static const char *objection(struct process *process, const struct process_status *status,
			     bool hold)
{
	const uint64_t huge = process_huge_bytes(process, clock_ns());

	/* Copy-on-write would split its huge pages, for good. */
	if (!hold && huge != UINT64_MAX && huge > status->resident_bytes / 2)
		return "refused-huge";
	return headroom_lacks(process->pid, status->resident_bytes);
}

/* All are busy: copies take longer than expected. */
static void note_pace(struct sampling *sampling)
{
	for (unsigned i = 0; i < WORKERS_SLOTS; i++) {
		const struct sampled_copy *sampled = &sampling->copies[i];
		const uint64_t ns = sampling->processes.cpu_ns - sampled->begun_cpu_ns;

		if ((sampled->alive || sampled->modelled) && ns > sampling->pace_ns)
			sampling->pace_ns = ns;
	}
}

void sampled_copy_take(struct sampling *sampling)
{
	struct worker *worker = workers_idle(sampling->workers);
	struct process_status status;
	struct process *process;
	struct copies_row *row;
	const char *why;
	pid_t thread = processes_draw(&sampling->processes, &sampling->random, &process);

	if (!thread || process_status(process->pid, &status) < 0 ||
	    status.image != process->image)
		return;
	if (waiting_is_for_the_end(sampling) && waiting_may(sampling, status.resident_bytes))
		worker = NULL;
	else if (!worker && !waiting_may(sampling, status.resident_bytes)) {
		note_pace(sampling);
		strata_conclude(sampling, "busy");
		return;
	}
	if (strata_too_dear(sampling, status.resident_bytes))
		return;
	why = objection(process, &status, sampling->options.hold);
	if (!why && budget_pause_is_too_long(&sampling->budget, status.resident_bytes))
		why = "refused-pause";
	if (!why) {
		copy_thread(sampling, worker, process, thread, &status);
		return;
	}
	sampling->refused++;
	row = strata_conclude(sampling, why);
	if (row) {
		row->pid = process->pid;
		row->tid = thread;
		row->resident_bytes = status.resident_bytes;
	}
}
