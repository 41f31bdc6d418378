/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "sampled_copies.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "sampled_copy.h"
#include "waiting.h"

#define REAP_TRIES 200u
/* A worker that ran for less than this part of so long a time has no CPU to itself. */
#define STARVED_NS 200000000u
#define STARVED_SHARE 3u
/*
 * Threads wait no longer than this for a copy: see injector.h, whose own limit is the last resort.
 */
#define HOLD_NS 500000000u
/*
 * What a worker takes from the program on another CPU, by using caches and memory that both share:
 * a third of its own time for xz, next to nothing for others (doc/benchmarks.md).  At most what it
 * takes to refill the last-level cache, unless calls end windows: whoever answers them may need
 * that CPU.
 */
#define NEIGHBOUR_SHARE 3u
#define REFILL_NS UINT64_C(30000000)

void sampled_copies_settle(struct sampling *sampling)
{
	for (size_t i = 0; i < sampling->processes.count; i++) {
		struct process *process = sampling->processes.all[i];
		struct process_status status;

		if (!process->gone && process_status(process->pid, &status) == 0 &&
		    status.state != 'Z')
			sampled_copy_charge_late(sampling, process, status.minor_faults);
	}
}

/* The threads that waited for its end continue. */
static void release(struct sampling *sampling, struct process *process)
{
	const struct injector_request request = {
		.task = INJECT_RELEASE, .program = process->pid, .thread = process->pid,
	};
	struct injector_answer answer;
	int recording;

	if (injector_ask_recording(sampling->injector, &request, &answer, &recording) < 0)
		sampling->stopped = "injector";
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
	sampling->measured += news->good;
	sampling->measuring_ns = clock_ns() - sampled->given_ns;
	row->lived_ns = news->killed_ns - sampled->copy.taken_ns;
	if (sampling->options.hold) {
		release(sampling, process);
		row->pause_ns = clock_ns() - sampled->copy.taken_ns;
		cost.pause_ns = row->pause_ns;
	}
	if (news->what == NEWS_DEAD && sampled->cut)
		row->result = sampled->cut;
	else if (news->what == NEWS_DEAD && !news->error)
		row->result = news->end == FOLLOW_EXITED ? "lost" :
			      news->end == FOLLOW_FAILED ? "failed" : "followed";
	if (news->error)
		row->error = news->error;
	if (news->what == NEWS_DEAD && news->end == FOLLOW_CALL)
		process->ended_by_call = true;
	sampled_copy_bury(sampled);
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
	if (sampled->lost_ns > cost.pause_ns)
		cost.pause_ns = sampled->lost_ns;
	budget_charge(&sampling->budget, &cost);
}

static void set_pace(struct sampling *sampling, uint64_t ns)
{
	sampling->pace_ns = sampling->pace_ns ? (sampling->pace_ns + ns) / 2 : ns;
}

/* Its worker is free for the next one. */
static void end_job(struct sampling *sampling, const struct worker *worker,
		    struct sampled_copy *sampled, uint64_t ran_ns)
{
	/* It used CPUs that were all busy, or only caches and memory. */
	uint64_t taken_ns = ran_ns / (worker->urgent ? workers_cpus() : NEIGHBOUR_SHARE);

	if (!worker->urgent && !sampled->process->ended_by_call && taken_ns > REFILL_NS)
		taken_ns = REFILL_NS;
	budget_charge_work(&sampling->budget, taken_ns);
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
		struct sampled_copy *sampled = sampled_copy_of(sampling, worker);

		while (workers_hear(worker, &news)) {
			if (sampled->alive &&
			    (news.what == NEWS_DEAD || news.what == NEWS_GONE))
				settle(sampling, sampled, &news);
			if (sampled->modelled && news.what != NEWS_DEAD)
				end_job(sampling, worker, sampled, news.cpu_ns);
		}
		waiting_give(sampling, worker);
	}
}

void sampled_copies_kill(struct sampling *sampling, const struct process *process)
{
	for (unsigned i = 0; i < WORKERS_SLOTS; i++)
		if (sampling->copies[i].alive &&
		    (!process || sampling->copies[i].process == process))
			cut(&sampling->copies[i], "cut");
	waiting_kill(sampling, process);
}

/*
 * The program pays for each page that it writes while the copy lives, so a worker that waits for a
 * CPU is expensive; and one that waits forever, also to model what it has seen, contributes nothing.
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
	if (worker && sampling_watch(sampling, worker->socket) == 0 && sampled->alive)
		cut(sampled, "starved");
}

void sampled_copies_check(struct sampling *sampling)
{
	for (unsigned i = 0; i < WORKERS_SLOTS; i++) {
		struct sampled_copy *sampled = &sampling->copies[i];

		if (sampling->options.arms)
			continue;
		if (sampled->alive && sampling->options.hold &&
		    clock_ns() - sampled->copy.taken_ns > HOLD_NS)
			cut(sampled, "starved");
		if (sampled->alive && (sampled->process->gone ||
				       sampled->process->image != sampled->image))
			cut(sampled, "cut");
		else if (sampled->alive || sampled->modelled)
			relieve(sampling, &sampling->workers->all[i], sampled);
	}
}

bool sampled_copies_alive(const struct sampling *sampling)
{
	for (unsigned i = 0; i < WORKERS_SLOTS; i++)
		if (sampling->copies[i].alive)
			return true;
	return sampling->waiting_count > 0;
}

/* By a running thread; if there is none for long, by a sleeping one. */
static void reap(struct sampling *sampling, struct process *process)
{
	const struct timespec soon = { 0, 2000000 };

	for (unsigned i = 0; i < REAP_TRIES && process->dead_count && !process->gone; i++) {
		struct injector_request request = sampled_copy_request(sampling, process, process->pid);
		struct injector_answer answer;
		int recording;

		request.task = INJECT_REAP;
		request.copies = request.record_calls = 0;
		request.sleeping = i + 5 > REAP_TRIES;
		if (sampled_copy_ask(sampling, process, &request, &answer, &recording) < 0 ||
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
