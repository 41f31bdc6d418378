/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "sampling.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "sampled_copies.h"
#include "sampled_copy.h"
#include "strata.h"

#define TREE_NS 20000000u	/* how often new processes are looked for */
#define LONGEST_NS 20000000u	/* between two looks */
#define SHORTEST_NS 100000u
#define IDLE_NS 2000000u	/* how long an instant waits for a running thread at most */

static bool is_copy(void *context, pid_t pid)
{
	const struct sampling *sampling = context;

	for (unsigned i = 0; i < WORKERS_SLOTS; i++)
		if (sampling->copies[i].alive && sampling->copies[i].copy.pid == pid)
			return true;
	for (unsigned i = 0; i < sampling->waiting_count; i++)
		if (sampling->waiting[i].sampled.copy.pid == pid)
			return true;
	for (size_t i = 0; i < sampling->processes.count; i++)
		for (uint32_t k = 0; k < sampling->processes.all[i]->dead_count; k++)
			if (sampling->processes.all[i]->dead[k] == pid)
				return true;
	return false;
}

int sampling_watch(const struct sampling *sampling, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };

	return epoll_ctl(sampling->fd, EPOLL_CTL_ADD, fd, &event);
}

int sampling_open(struct sampling *sampling, const struct sampling_options *options,
		  struct workers *workers, const char *injector)
{
	memset(sampling, 0, sizeof(*sampling));
	sampling->options = *options;
	sampling->workers = workers;
	sampling->timer = sampling->injector = -1;
	sampling->budget = (struct budget){
		.fraction = options->fraction, .most_copies = options->copies,
		.expected_cpu_ns = options->expected_cpu_ns, .fault_ns = options->fault_ns,
		.most_pause_ns = options->most_pause_ns,
	};
	sampling->random = options->seed;
	sampling->open_row = -1;
	sampling->next_window = options->first_window;
	sampling->processes.children = options->children;
	sampling->processes.only = options->thread;
	sampling->processes.is_copy = is_copy;
	sampling->processes.context = sampling;
	sampling->fd = epoll_create1(EPOLL_CLOEXEC);
	if (sampling->fd < 0)
		return -1;
	sampling->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (sampling->timer < 0 || sampling_watch(sampling, sampling->timer) < 0)
		return -1;
	for (uint32_t i = 0; i < workers->count; i++)
		if (sampling_watch(sampling, workers->all[i].socket) < 0)
			return -1;
	sampling->injector = injector_start(injector, &sampling->injector_pid);
	return sampling->injector < 0 ? -1 : 0;
}

static void set_timer(const struct sampling *sampling, uint64_t ns)
{
	const struct itimerspec time = {
		.it_value = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) },
	};

	timerfd_settime(sampling->timer, 0, &time, NULL);
}

int sampling_begin(struct sampling *sampling, pid_t pid, bool launched)
{
	sampling->pid = pid;
	sampling->launched = launched;
	sampling->start_ns = sampling->looked_ns = clock_ns();
	if (processes_open(&sampling->processes, pid) < 0)
		return -1;
	sampling->first_image = sampling->processes.all[0]->image;
	sampling->executed = !launched;
	if (!launched)
		workers_avoid(sampling->workers, pid);
	strata_next(sampling, 0);
	set_timer(sampling, SHORTEST_NS);
	return 0;
}

/* How long until the instant, if the program continues as it did? */
static uint64_t time_left(struct sampling *sampling, uint64_t now)
{
	const struct processes *processes = &sampling->processes;
	const uint64_t ran = processes->cpu_ns - sampling->looked_cpu_ns;
	const uint64_t passed = now - sampling->looked_ns;
	const bool due = processes->cpu_ns >= sampling->instant_ns;
	uint64_t ns;

	sampling->looked_ns = now;
	sampling->looked_cpu_ns = processes->cpu_ns;
	if (due) {
		/*
		 * The next look is not at a fixed interval, which could be in step with the
		 * program.
		 */
		sampling->patience_ns = ran || !sampling->patience_ns ? 2 * SHORTEST_NS :
					sampling->patience_ns * 5 / 4;
		if (sampling->patience_ns > IDLE_NS)
			sampling->patience_ns = IDLE_NS;
		return SHORTEST_NS + budget_random(&sampling->random, sampling->patience_ns);
	}
	sampling->patience_ns = 0;
	if (!ran || !passed)
		return LONGEST_NS / 4;
	ns = (uint64_t)((double)(sampling->instant_ns - processes->cpu_ns) * (double)passed /
			(double)ran);
	if (ns < SHORTEST_NS)
		return SHORTEST_NS;
	return ns < LONGEST_NS ? ns : LONGEST_NS;
}

/* The process has its own code only when it has executed the program. */
static bool executed(struct sampling *sampling)
{
	if (sampling->executed)
		return true;
	sampling->executed = sampling->processes.all[0]->image != sampling->first_image;
	return sampling->executed;
}

static void look(struct sampling *sampling)
{
	const uint64_t now = clock_ns();
	const bool tree = now - sampling->tree_ns >= TREE_NS;

	if (tree)
		sampling->tree_ns = now;
	processes_look(&sampling->processes, tree);
	if (sampling->processes.cpu_ns >= sampling->stratum_ns)
		strata_close(sampling);
	sampled_copies_check(sampling);
	if (executed(sampling) && !sampling->stopped &&
	    sampling->processes.cpu_ns >= sampling->instant_ns)
		sampled_copy_take(sampling);
	if (!sampling->stopped)
		set_timer(sampling, time_left(sampling, now));
	else if (sampled_copies_alive(sampling))
		set_timer(sampling, LONGEST_NS);
}

int sampling_ready(void *context)
{
	struct sampling *sampling = context;
	uint64_t expirations;

	sampled_copies_hear(sampling);
	if (read(sampling->timer, &expirations, sizeof(expirations)) == sizeof(expirations))
		look(sampling);
	return 0;
}

/* Until no copy is alive, or a time has passed. */
static void wait_for_copies(struct sampling *sampling, uint64_t ns)
{
	const uint64_t end_ns = clock_ns() + ns;

	sampled_copies_hear(sampling);
	while (sampled_copies_alive(sampling) && clock_ns() < end_ns) {
		struct pollfd source = { .fd = sampling->fd, .events = POLLIN };
		uint64_t expirations;

		if (read(sampling->timer, &expirations, sizeof(expirations)) < 0)
			poll(&source, 1, 10);
		sampled_copies_hear(sampling);
	}
}

void sampling_end(struct sampling *sampling, bool patient)
{
	struct process_status status = { .state = '?' };

	if (!sampling->stopped)
		sampling->stopped = "good";
	sampling->over = true;
	set_timer(sampling, 0);
	/* Of a service that has ended nothing stays. */
	if (patient && (sampling->launched || process_status(sampling->pid, &status) == 0) &&
	    status.state != 'Z')
		wait_for_copies(sampling, sampling->options.window_ns);
	strata_close(sampling);
	sampled_copies_kill(sampling, NULL);
	wait_for_copies(sampling, UINT64_C(5000000000));
	sampled_copies_settle(sampling);
	sampled_copies_reap(sampling);
}

int sampling_write(struct sampling *sampling, const char *folder, const char *program,
		   uint32_t workers, uint32_t lost_workers, uint64_t end_ns)
{
	const struct copies_summary summary = {
		.pid = sampling->pid, .program = program,
		.state = sampling->stopped ? sampling->stopped : "good",
		.budget = &sampling->budget, .seed = sampling->options.seed,
		.wall_ns = end_ns - sampling->start_ns, .cpu_ns = sampling->processes.cpu_ns,
		.threads_seen = sampling->processes.threads_seen,
		.processes_seen = sampling->processes.count,
		.workers = workers, .lost_workers = lost_workers,
	};

	return copies_table_write(&sampling->rows, &summary, folder,
				  sampling->options.first_window);
}

void sampling_close(struct sampling *sampling)
{
	if (sampling->injector >= 0)
		close(sampling->injector);
	if (sampling->injector_pid > 0)
		waitpid(sampling->injector_pid, NULL, 0);
	if (sampling->timer >= 0)
		close(sampling->timer);
	if (sampling->fd >= 0)
		close(sampling->fd);
	processes_close(&sampling->processes);
	copies_rows_free(&sampling->rows);
}
