/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "sampled_copy.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "headroom.h"

/* So often a thread may slip away before an instant is given up. */
#define MOST_TRIES 200u
#define WAIT_MS 20u
#define MOST_REFUSED 10u
#define REAP_TRIES 200u
/* A worker that ran for less than this part of so long a time has no CPU to itself. */
#define STARVED_NS 200000000u
#define STARVED_SHARE 3u

static struct sampled_copy *slot_of(struct sampling *sampling, const struct worker *worker)
{
	return &sampling->copies[worker - sampling->workers->all];
}

static uint64_t resident_bytes(const struct sampling *sampling)
{
	struct process_status status;

	if (process_status(sampling->pid, &status) < 0)
		return 0;
	return status.resident_bytes;
}

void sampled_next_stratum(struct sampling *sampling, uint64_t begin_ns)
{
	uint64_t length = budget_stratum(&sampling->budget, begin_ns, resident_bytes(sampling));

	const uint32_t serving = workers_serving(sampling->workers);

	sampling->tries = 0;
	if (length == UINT64_MAX) {
		sampling->stopped = "budget";
		return;
	}
	/* Who refused now will, most likely, refuse again; workers that are busy leave it unseen. */
	if (serving && length < sampling->pace_ns / serving)
		length = sampling->pace_ns / serving;
	for (unsigned i = 0; i < sampling->refused && i < MOST_REFUSED; i++)
		length *= 2;
	sampling->stratum_ns = begin_ns;
	sampling->length_ns = length;
	sampling->instant_ns = begin_ns + budget_random(&sampling->random, length);
}

void sampled_close_stratum(struct sampling *sampling)
{
	const uint64_t user_ns = sampling->processes.user_ns;

	if (sampling->open_row < 0)
		return;
	sampling->rows.all[sampling->open_row].user_ns = user_ns - sampling->open_user_ns;
	sampling->open_row = -1;
	sampling->open_user_ns = user_ns;
}

/* The instant is over; what came of it is the row's result. */
static struct copies_row *conclude(struct sampling *sampling, const char *result)
{
	ssize_t index = copies_rows_add(&sampling->rows, sampling->next_window);
	struct copies_row *row;
	uint64_t next_ns = sampling->stratum_ns + sampling->length_ns;

	if (index < 0) {
		sampling->stopped = "memory";
		return NULL;
	}
	sampled_close_stratum(sampling);
	sampling->open_row = index;
	sampling->next_window++;
	row = &sampling->rows.all[index];
	row->result = result;
	row->at_ns = clock_ns() - sampling->start_ns;
	row->at_cpu_ns = sampling->processes.cpu_ns;
	row->stands_for_ns = sampling->length_ns;
	/* One that came late may be in the next stratum already: that one is not cut short. */
	if (next_ns < sampling->processes.cpu_ns) {
		row->stands_for_ns += sampling->processes.cpu_ns - next_ns;
		next_ns = sampling->processes.cpu_ns;
	}
	sampled_next_stratum(sampling, next_ns);
	return row;
}

/* Memory grew, and a copy would cost far more than the stratum allows: its rest is not seen. */
static bool too_dear(struct sampling *sampling, uint64_t bytes)
{
	const struct budget *budget = &sampling->budget;
	const uint64_t now_ns = sampling->processes.cpu_ns;

	if (budget->most_copies ||
	    (double)budget_predict(budget, bytes) <
		    2 * budget->fraction * (double)sampling->length_ns + 1e6)
		return false;
	sampling->length_ns = now_ns - sampling->stratum_ns;
	conclude(sampling, "dear");
	return true;
}

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

static struct injector_request request_of(const struct sampling *sampling,
					  const struct process *process, pid_t thread)
{
	struct injector_request request = {
		.task = INJECT_COPY, .program = process->pid, .thread = thread,
		.sibling = sampling->launched && process->pid == sampling->pid,
		.copies = 1, .wait_ms = WAIT_MS, .tracer = getpid(),
		.dead_count = process->dead_count,
	};

	/* Recording takes time, in which the copy lives: only if calls end windows. */
	if (process->ended_by_call) {
		request.record_calls = sampling->options.record_calls;
		request.record_ms = sampling->options.record_ms;
	}

	memcpy(request.dead, process->dead_inner, sizeof(request.dead[0]) * process->dead_count);
	return request;
}

static int ask(struct sampling *sampling, struct process *process,
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
static void bury(struct sampled_copy *sampled)
{
	struct process *process = sampled->process;

	if (sampled->sibling) {
		waitpid(sampled->copy.pid, NULL, __WALL | WNOHANG);
	} else if (process->dead_count < PROCESS_MOST_DEAD) {
		process->dead[process->dead_count] = sampled->copy.pid;
		process->dead_inner[process->dead_count++] = sampled->copy.inner_pid;
	}
}

/* What the last copy's pages cost after its death: each is found the program's own again. */
static void charge_late(struct sampling *sampling, struct process *process, uint64_t faults)
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

void sampled_copies_settle(struct sampling *sampling)
{
	for (size_t i = 0; i < sampling->processes.count; i++) {
		struct process *process = sampling->processes.all[i];
		struct process_status status;

		if (!process->gone && process_status(process->pid, &status) == 0 &&
		    status.state != 'Z')
			charge_late(sampling, process, status.minor_faults);
	}
}

static void give(struct sampling *sampling, struct worker *worker, struct process *process,
		 const struct injector_request *request, const struct injector_answer *answer,
		 const struct process_status *status, int recording)
{
	struct sampled_copy *sampled = slot_of(sampling, worker);
	struct copies_row *row = conclude(sampling, "lost");
	struct worker_job job = {
		.what = JOB_FOLLOW, .copy = answer->copy[0], .image = process->image,
		.time_ns = sampling->options.window_ns,
	};

	*sampled = (struct sampled_copy){
		.alive = true, .copy = answer->copy[0], .sibling = request->sibling,
		.process = process, .image = process->image, .faults = status->minor_faults,
		.cpu_ns = process->cpu_ns, .begun_cpu_ns = sampling->processes.cpu_ns,
		.fault_rate = process->fault_rate,
	};
	if (row) {
		fill_in(row, process, request->thread, answer);
		sampled->row = (size_t)(row - sampling->rows.all);
		job.start = (struct window_start){ row->window, row->at_cpu_ns };
	}
	if (!row || workers_give(worker, &job, recording) < 0) {
		kill(sampled->copy.pid, SIGKILL);
		sampled->alive = false;
		bury(sampled);
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
	row = conclude(sampling, copies_refusal(answer->refusal));
	if (row)
		fill_in(row, process, thread, answer);
}

static void copy_thread(struct sampling *sampling, struct worker *worker, struct process *process,
			pid_t thread, const struct process_status *status)
{
	const struct injector_request request = request_of(sampling, process, thread);
	struct injector_answer answer;
	int recording;

	charge_late(sampling, process, status->minor_faults);
	if (ask(sampling, process, &request, &answer, &recording) < 0)
		return;
	if (answer.copies && answer.missing) {
		/* It lacks memory: the next one will have it. */
		struct sampled_copy useless = {
			.copy = answer.copy[0], .sibling = request.sibling, .process = process,
		};

		kill(useless.copy.pid, SIGKILL);
		bury(&useless);
		if (++sampling->tries >= MOST_TRIES)
			conclude(sampling, "incomplete");
	} else if (answer.copies) {
		sampling->refused = 0;
		give(sampling, worker, process, &request, &answer, status, recording);
	} else {
		note_refusal(sampling, process, thread, &answer);
	}
	if (recording >= 0)
		close(recording);
}

/* Why a process is not to be copied now, if so. */
static const char *objection(struct process *process, const struct process_status *status)
{
	const uint64_t huge = process_huge_bytes(process, clock_ns());

	/* Copy-on-write would split its huge pages, for good. */
	if (huge != UINT64_MAX && huge > status->resident_bytes / 2)
		return "refused-huge";
	return headroom_lacks(process->pid, status->resident_bytes);
}

/* All are busy: it takes longer than was known. */
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
	if (!worker) {
		note_pace(sampling);
		conclude(sampling, "busy");
		return;
	}
	if (too_dear(sampling, status.resident_bytes))
		return;
	why = objection(process, &status);
	if (!why) {
		copy_thread(sampling, worker, process, thread, &status);
		return;
	}
	sampling->refused++;
	row = conclude(sampling, why);
	if (row) {
		row->pid = process->pid;
		row->tid = thread;
		row->resident_bytes = status.resident_bytes;
	}
}

/* It is dead: what did it cost? */
static void settle(struct sampling *sampling, struct sampled_copy *sampled,
		   const struct worker_news *news)
{
	struct copies_row *row = &sampling->rows.all[sampled->row];
	struct process *process = sampled->process;
	struct process_status status;
	struct copy_cost cost = {
		.pause_ns = row->pause_ns == COPIES_UNKNOWN ? 0 : row->pause_ns,
		.resident_bytes = row->resident_bytes,
	};
	double own;

	sampled->alive = false;
	sampled->modelled = news->what == NEWS_DEAD;
	row->lived_ns = news->killed_ns - sampled->copy.taken_ns;
	if (news->what == NEWS_DEAD && sampled->cut)
		row->result = sampled->cut;
	else if (news->what == NEWS_DEAD && !news->error)
		row->result = news->end == FOLLOW_EXITED ? "lost" :
			      news->end == FOLLOW_FAILED ? "failed" : "followed";
	if (news->error)
		row->error = news->error;
	if (news->what == NEWS_DEAD && news->end == FOLLOW_CALL)
		process->ended_by_call = true;
	bury(sampled);
	if (!process->gone && process_status(process->pid, &status) == 0 && status.state != 'Z') {
		processes_look(&sampling->processes, false);
		row->faults = status.minor_faults - sampled->faults;
		own = sampled->fault_rate * (double)(process->cpu_ns - sampled->cpu_ns);
		if ((double)row->faults > own)
			cost.faults = row->faults - (uint64_t)own;
		/* Each page that they share once; the others are new memory of the program's. */
		if (cost.faults > row->resident_bytes / 4096)
			cost.faults = row->resident_bytes / 4096;
		row->added_faults = cost.faults;
		process->dead_row = sampled->row;
		process->dead_cpu_ns = process->cpu_ns;
		process->dead_faults = status.minor_faults;
		process->shared_pages = row->resident_bytes / 4096;
		if (cost.faults < process->shared_pages)
			process->shared_pages -= cost.faults;
		else
			process->shared_pages = 0;
	}
	budget_charge(&sampling->budget, &cost);
}

static void set_pace(struct sampling *sampling, uint64_t ns)
{
	sampling->pace_ns = sampling->pace_ns ? (3 * sampling->pace_ns + ns) / 4 : ns;
}

/* Its worker is free for the next one. */
static void end_job(struct sampling *sampling, const struct worker *worker,
		    struct sampled_copy *sampled, uint64_t ran_ns)
{
	/* It took its share of CPUs that all were in use. */
	if (worker->urgent)
		budget_charge_work(&sampling->budget, ran_ns / workers_cpus());
	sampled->modelled = false;
	set_pace(sampling, sampling->processes.cpu_ns - sampled->begun_cpu_ns);
}

static void cut(struct sampled_copy *sampled, const char *why)
{
	if (!sampled->cut)
		sampled->cut = why;
	kill(sampled->copy.pid, SIGKILL);
}

void sampled_copies_hear(struct sampling *sampling)
{
	struct worker_news news;

	for (uint32_t i = 0; i < sampling->workers->count; i++) {
		struct worker *worker = &sampling->workers->all[i];
		struct sampled_copy *sampled = slot_of(sampling, worker);

		while (workers_hear(worker, &news)) {
			if (sampled->alive &&
			    (news.what == NEWS_DEAD || news.what == NEWS_GONE))
				settle(sampling, sampled, &news);
			if (sampled->modelled && news.what != NEWS_DEAD)
				end_job(sampling, worker, sampled, news.cpu_ns);
		}
	}
}

void sampled_copies_kill(struct sampling *sampling, const struct process *process)
{
	for (unsigned i = 0; i < WORKERS_SLOTS; i++)
		if (sampling->copies[i].alive &&
		    (!process || sampling->copies[i].process == process))
			cut(&sampling->copies[i], "cut");
}

/*
 * The program pays for each page that it writes while the copy lives, so that a worker that waits
 * for a CPU is dear; and one that waits for ever tells nothing.
 */
static void relieve(struct sampling *sampling, struct worker *worker,
		    struct sampled_copy *sampled)
{
	const uint64_t lived_ns = clock_ns() - sampled->copy.taken_ns;
	uint64_t ran_ns;

	if (worker->urgent || worker->retired || lived_ns < STARVED_NS)
		return;
	ran_ns = process_cpu_ns(worker->pid) - worker->cpu_ns +
		 process_cpu_ns(sampled->copy.pid);
	if (ran_ns >= lived_ns / STARVED_SHARE)
		return;
	worker = workers_replace(sampling->workers, worker);
	if (worker && sampling_watch(sampling, worker->socket) == 0)
		cut(sampled, "starved");
}

void sampled_copies_check(struct sampling *sampling)
{
	for (unsigned i = 0; i < WORKERS_SLOTS; i++) {
		struct sampled_copy *sampled = &sampling->copies[i];

		if (sampled->alive && (sampled->process->gone ||
				       sampled->process->image != sampled->image))
			cut(sampled, "cut");
		else if (sampled->alive)
			relieve(sampling, &sampling->workers->all[i], sampled);
	}
}

bool sampled_copies_alive(const struct sampling *sampling)
{
	for (unsigned i = 0; i < WORKERS_SLOTS; i++)
		if (sampling->copies[i].alive)
			return true;
	return false;
}

/* By a thread that runs; if there is none for long, by one that sleeps. */
static void reap(struct sampling *sampling, struct process *process)
{
	const struct timespec soon = { 0, 2000000 };

	for (unsigned i = 0; i < REAP_TRIES && process->dead_count && !process->gone; i++) {
		struct injector_request request = request_of(sampling, process, process->pid);
		struct injector_answer answer;
		int recording;

		request.task = INJECT_REAP;
		request.copies = request.record_calls = 0;
		request.sleeping = i + 5 > REAP_TRIES;
		if (ask(sampling, process, &request, &answer, &recording) < 0 ||
		    answer.refusal == REFUSED_GONE || answer.refusal == REFUSED_PERMISSION)
			return;
		if (process->dead_count)
			nanosleep(&soon, NULL);
	}
}

void sampled_copies_reap(struct sampling *sampling)
{
	for (size_t i = 0; i < sampling->processes.count; i++)
		reap(sampling, sampling->processes.all[i]);
}
