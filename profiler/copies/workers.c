/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "workers.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "parcel.h"
#include "processes.h"
#include "worker.h"

/* A timing model may still run when the program ends, but never for longer than this. */
#define WRITE_NS UINT64_C(120000000000)
/* So long CPUs are watched: where half of one is not idle, a worker that takes idle time starves. */
#define IDLE_NS 300000000

uint32_t workers_cpus(void)
{
	cpu_set_t cpus;

	return sched_getaffinity(0, sizeof(cpus), &cpus) < 0 ? 1 : (uint32_t)CPU_COUNT(&cpus);
}

/* Clock ticks in which CPUs had nothing to do, of all CPUs together. */
static uint64_t idle_ticks(void)
{
	unsigned long long idle = 0, waiting = 0;
	FILE *file = fopen("/proc/stat", "re");

	if (!file)
		return 0;
	/* User, nice and system come first. */
	if (fscanf(file, "cpu %*u %*u %*u %llu %llu", &idle, &waiting) != 2)
		idle = waiting = 0;
	fclose(file);
	return idle + waiting;
}

bool workers_lack_cpus(void)
{
	const struct timespec nap = { 0, IDLE_NS };
	const uint64_t before = idle_ticks();

	nanosleep(&nap, NULL);
	return (idle_ticks() - before) * UINT64_C(1000000000) / (uint64_t)sysconf(_SC_CLK_TCK) <
	       IDLE_NS / 2;
}

uint32_t workers_spare(void)
{
	const uint32_t cpus = workers_cpus();

	if (cpus < 2)
		return 1;
	return cpus - 1 < WORKERS_MOST ? cpus - 1 : WORKERS_MOST;
}

/* In the new process. */
static void become_worker(pid_t controller, bool urgent)
{
	const struct sched_param none = { 0 };
	sigset_t all;

	/* The controller ends it, by closing its socket or by exiting. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != controller)
		_exit(125);
	prctl(PR_SET_NAME, "tlbcost-worker");
	if (urgent)
		return;
	setpriority(PRIO_PROCESS, 0, 19);
	sched_setscheduler(0, SCHED_IDLE, &none);
}

/* It keeps no file of ours open but its socket.  Returns that. */
static int keep_socket_only(int socket)
{
	const int lowest = 3;

	if (socket != lowest && dup2(socket, lowest) < 0)
		_exit(125);
	syscall(SYS_close_range, lowest + 1, ~0u, 0);
	return lowest;
}

static int start(struct workers *workers, bool urgent)
{
	struct worker *worker = &workers->all[workers->count];
	const uint32_t number = workers->first + workers->count;
	const pid_t controller = getpid();
	int sockets[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) < 0)
		return -1;
	*worker = (struct worker){ .socket = sockets[0], .urgent = urgent };
	worker->pid = fork();
	if (worker->pid == 0) {
		become_worker(controller, urgent);
		_exit(worker_run(keep_socket_only(sockets[1]), &workers->options, workers->folder,
				 number));
	}
	close(sockets[1]);
	if (worker->pid > 0) {
		workers->count++;
		return 0;
	}
	close(sockets[0]);
	return -1;
}

int workers_start(struct workers *workers, uint32_t count, const struct worker_options *options,
		  const char *folder, uint32_t first)
{
	*workers = (struct workers){ .options = *options, .folder = folder, .first = first };
	while (workers->count < count && workers->count < WORKERS_MOST) {
		if (start(workers, options->urgent) < 0) {
			workers_kill(workers);
			return -1;
		}
	}
	return 0;
}

void workers_avoid(const struct workers *workers, pid_t pid)
{
	cpu_set_t program, ours, others;

	if (sched_getaffinity(pid, sizeof(program), &program) < 0 ||
	    sched_getaffinity(0, sizeof(ours), &ours) < 0)
		return;
	CPU_AND(&others, &ours, &program);
	CPU_XOR(&others, &ours, &others);
	for (uint32_t i = 0; CPU_COUNT(&others) > 0 && i < workers->count; i++)
		sched_setaffinity(workers->all[i].pid, sizeof(others), &others);
}

struct worker *workers_replace(struct workers *workers, struct worker *starved)
{
	if (starved->urgent || workers->count == WORKERS_SLOTS || start(workers, true) < 0)
		return NULL;
	starved->retired = true;
	return &workers->all[workers->count - 1];
}

uint32_t workers_serving(const struct workers *workers)
{
	uint32_t serving = 0;

	for (uint32_t i = 0; i < workers->count; i++)
		serving += workers->all[i].socket >= 0 && !workers->all[i].retired;
	return serving;
}

struct worker *workers_idle(struct workers *workers)
{
	for (uint32_t i = 0; i < workers->count; i++)
		if (workers->all[i].socket >= 0 && !workers->all[i].busy &&
		    !workers->all[i].retired)
			return &workers->all[i];
	return NULL;
}

static void lose(struct worker *worker)
{
	int error = errno;

	close(worker->socket);
	worker->socket = -1;
	kill(worker->pid, SIGKILL);
	waitpid(worker->pid, NULL, 0);
	errno = error;
}

int workers_give(struct worker *worker, const struct worker_job *job, int recording)
{
	if (parcel_send(worker->socket, job, sizeof(*job), recording) < 0) {
		lose(worker);
		return -1;
	}
	worker->busy = true;
	worker->cpu_ns = process_cpu_ns(worker->pid);
	return 0;
}

bool workers_hear(struct worker *worker, struct worker_news *news)
{
	ssize_t length;

	if (worker->socket < 0)
		return false;
	length = recv(worker->socket, news, sizeof(*news), MSG_DONTWAIT);
	if (length < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (length != sizeof(*news)) {
		lose(worker);
		*news = (struct worker_news){ .what = NEWS_GONE, .killed_ns = clock_ns() };
	}
	if (news->what != NEWS_DEAD)
		worker->busy = false;
	return true;
}

/* Until it has written its tables.  Returns 0, or -1 with errno. */
static int await_tables(struct worker *worker, uint64_t deadline_ns)
{
	struct pollfd source = { .fd = worker->socket, .events = POLLIN };
	struct worker_news news;
	uint64_t now;

	while ((now = clock_ns()) < deadline_ns) {
		if (poll(&source, 1, (int)((deadline_ns - now) / 1000000 + 1)) <= 0)
			continue;
		if (!workers_hear(worker, &news))
			continue;
		if (news.what == NEWS_GONE) {
			errno = ECHILD;
			return -1;
		}
		if (news.what != NEWS_WRITTEN)
			continue;
		errno = news.error;
		return news.error ? -1 : 0;
	}
	errno = ETIMEDOUT;
	return -1;
}

uint32_t workers_finish(struct workers *workers)
{
	const struct worker_job job = { .what = JOB_WRITE };
	uint64_t deadline_ns = clock_ns() + WRITE_NS;
	uint32_t lost = 0;

	for (uint32_t i = 0; i < workers->count; i++)
		if (workers->all[i].socket >= 0)
			workers_give(&workers->all[i], &job, -1);
	for (uint32_t i = 0; i < workers->count; i++)
		if (workers->all[i].socket < 0 || await_tables(&workers->all[i], deadline_ns) < 0)
			lost++;
	workers_kill(workers);
	return lost;
}

void workers_kill(struct workers *workers)
{
	for (uint32_t i = 0; i < workers->count; i++)
		if (workers->all[i].socket >= 0)
			lose(&workers->all[i]);
	workers->count = 0;
}
