/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * copy [OPTION...] -- COMMAND...: run a command, and copy threads of it and of its descendants
 * again and again, also those that sleep, which is harder on them than what the profiler does.
 * Each copy is held stopped for a while, then killed.  The exit code is the command's.
 */
#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>

#include "copies/injected.h"

#define MOST_ALIVE 16
#define MOST_DEAD 4096
#define MOST_THREADS 4096
#define MOST_REFUSALS (REFUSED_USERFAULTFD + 1)

static const char *const refusals[MOST_REFUSALS] = {
	[INJECTED] = "injected",
	[REFUSED_GONE] = "gone",
	[REFUSED_PERMISSION] = "permission",
	[REFUSED_TRACED] = "traced",
	[REFUSED_BUSY] = "busy",
	[REFUSED_STOPPED] = "stopped",
	[REFUSED_32BIT] = "32-bit",
	[REFUSED_SECCOMP] = "seccomp",
	[REFUSED_CLONE] = "clone",
	[REFUSED_NO_INSTRUCTION] = "no-instruction",
	[REFUSED_FAILED] = "failed",
	[REFUSED_SLEEPING] = "sleeping",
	[REFUSED_HUGETLB] = "hugetlb",
	[REFUSED_IO_URING] = "io_uring",
	[REFUSED_USERFAULTFD] = "userfaultfd",
};

static struct {
	unsigned long copies, limit_ms, hold_ms, alive;
	unsigned gap_us, seed;
	bool tree, attach, foreign, awake;	/* foreign: the command reaps its copies itself */
	const char *statistics, *until;
} options = { .copies = 100, .limit_ms = 60000, .gap_us = 4000, .hold_ms = 5, .alive = 4 };

struct thread { pid_t program, thread; };
struct held { struct copy copy; uint64_t until_ns; };
struct dead { pid_t program, inner_pid; };

static struct held held[MOST_ALIVE];
static struct dead dead[MOST_DEAD];
static unsigned dead_count;
static struct thread threads[MOST_THREADS];
static unsigned thread_count;
static struct injected injected;
static pid_t command;

static struct {
	unsigned long results[MOST_REFUSALS];
	unsigned long untaken, missing, lost_dead;
	uint64_t restarted, rewound, rseq_aborted, reaped;
	int error;	/* of the last refusal that has one */
} counts;

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static bool ours(pid_t pid)
{
	for (unsigned i = 0; i < MOST_ALIVE; i++)
		if (held[i].copy.pid == pid)
			return true;
	/* Dead ones that wait to be reaped (all are of one namespace here). */
	for (unsigned i = 0; i < dead_count; i++)
		if (dead[i].inner_pid == pid)
			return true;
	return false;
}

static void add_threads(pid_t pid);

static void add_children(pid_t pid, pid_t thread)
{
	char path[64];
	FILE *file;
	int child;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", pid, thread);
	file = fopen(path, "re");
	while (file && fscanf(file, "%d", &child) == 1)
		if (!ours(child))
			add_threads(child);
	if (file)
		fclose(file);
}

static void add_threads(pid_t pid)
{
	struct dirent *entry;
	char path[64];
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	folder = opendir(path);
	while (folder && (entry = readdir(folder))) {
		pid_t thread = (pid_t)atoi(entry->d_name);

		if (thread <= 0 || thread_count == MOST_THREADS)
			continue;
		threads[thread_count++] = (struct thread){ pid, thread };
		if (options.tree)
			add_children(pid, thread);
	}
	if (folder)
		closedir(folder);
}

static void release(struct held *each)
{
	struct dead one = { each->copy.program, each->copy.inner_pid };

	copy_kill(&each->copy);
	/* Ours, or the system's: see injector.h. */
	if ((!options.foreign && one.program == command) || !one.inner_pid)
		return;
	if (dead_count < MOST_DEAD)
		dead[dead_count++] = one;
	else
		counts.lost_dead++;
}

static void release_due(uint64_t now)
{
	for (unsigned i = 0; i < MOST_ALIVE; i++)
		if (held[i].copy.pid && held[i].until_ns <= now)
			release(&held[i]);
}

/* Those of the program's that are in the request; they are no longer ours to remember if reaped. */
static void fill_dead(struct injector_request *request, unsigned places[32])
{
	for (unsigned i = 0; i < dead_count && request->dead_count < 32; i++) {
		if (dead[i].program != request->program)
			continue;
		places[request->dead_count] = i;
		request->dead[request->dead_count++] = dead[i].inner_pid;
	}
}

static void forget_reaped(const struct injector_request *request,
			  const struct injector_answer *answer,
			  const unsigned places[32])
{
	/* From the last: the last entry takes the place of one that goes. */
	for (unsigned i = request->dead_count; i-- > 0;)
		if (answer->refusal == REFUSED_GONE || answer->reaped >> i & 1) {
			counts.reaped += answer->reaped >> i & 1;
			dead[places[i]] = dead[--dead_count];
		}
}

static int ask(enum injector_task task, struct thread thread, struct injector_answer *answer)
{
	struct injector_request request = {
		.task = task, .program = thread.program, .thread = thread.thread,
		.sibling = !options.foreign && thread.program == command,
		.sleeping = !options.awake,
		.copies = 1, .wait_ms = 50, .tracer = getpid(),
	};
	unsigned places[32];

	fill_dead(&request, places);
	if (task == INJECT_REAP && !request.dead_count)
		return 0;
	if (injector_ask(injected.socket, &request, answer)) {
		warn("the injector");
		return -1;
	}
	forget_reaped(&request, answer, places);
	return 0;
}

static void hold(struct held *place, const struct injector_answer *answer)
{
	place->copy = answer->copy[0];
	place->until_ns = now_ns() + options.hold_ms * 1000000u * ((unsigned)rand() % 4 + 1) / 2;
	if (copy_take(&place->copy)) {
		counts.untaken++;
		release(place);
	}
}

static int copy_one(struct held *place)
{
	struct injector_answer answer;
	struct thread thread;

	thread_count = 0;
	add_threads(command);
	if (!thread_count)
		return 0;
	thread = threads[(unsigned)rand() % thread_count];
	if (ours(thread.program))
		return 0;
	if (ask(INJECT_COPY, thread, &answer))
		return -1;
	if (answer.refusal >= MOST_REFUSALS)
		errx(125, "an unknown refusal: %d", (int)answer.refusal);
	counts.results[answer.refusal]++;
	if (answer.error)
		counts.error = answer.error;
	counts.restarted += answer.restarted;
	counts.rewound += answer.rewound;
	counts.rseq_aborted += answer.rseq_aborted;
	counts.missing += answer.missing;
	if (answer.copies)
		hold(place, &answer);
	return 0;
}

/* The programs reap what is left: the first thread of each that can. */
static void reap_left(void)
{
	struct injector_answer answer;

	for (unsigned tries = 0; dead_count && tries < 100; tries++) {
		thread_count = 0;
		add_threads(command);
		for (unsigned i = 0; dead_count && i < thread_count; i++)
			if (ask(INJECT_REAP, threads[i], &answer))
				return;
		injected_nap(1000);
	}
}

static void write_statistics(void)
{
	FILE *file = options.statistics ? fopen(options.statistics, "we") : NULL;

	if (!file)
		return;
	for (unsigned i = 0; i < MOST_REFUSALS; i++)
		fprintf(file, "%s\t%lu\n", refusals[i], counts.results[i]);
	fprintf(file, "untaken\t%lu\nmissing\t%lu\nunreaped\t%u\n", counts.untaken, counts.missing,
		dead_count);
	fprintf(file, "restarted\t%" PRIu64 "\nrewound\t%" PRIu64 "\nrseq_aborted\t%" PRIu64 "\n",
		counts.restarted, counts.rewound, counts.rseq_aborted);
	fprintf(file, "reaped\t%" PRIu64 "\nerror\t%s\n", counts.reaped,
		counts.error ? strerrorname_np(counts.error) : "none");
	fclose(file);
}

/* Whether the command still runs; else its status. */
static bool runs(int *status)
{
	siginfo_t ended = { .si_pid = 0 };

	if (options.attach)
		return kill(command, 0) == 0 || errno == EPERM;
	if (waitid(P_PID, (id_t)command, &ended, WEXITED | WNOHANG | WNOWAIT) || !ended.si_pid)
		return true;
	*status = ended.si_code == CLD_EXITED ? ended.si_status : 128 + ended.si_status;
	return false;
}

static struct held *free_place(void)
{
	for (unsigned i = 0; i < options.alive; i++)
		if (!held[i].copy.pid)
			return &held[i];
	return NULL;
}

/* Copies until there are enough, or the command has ended. */
static void copy_often(int *status)
{
	uint64_t end_ns = now_ns() + options.limit_ms * 1000000u;

	while (runs(status) && counts.results[INJECTED] < options.copies && now_ns() < end_ns) {
		struct held *place;

		injected_nap(options.gap_us ? (unsigned)rand() % options.gap_us : 0);
		release_due(now_ns());
		place = free_place();
		if (place && copy_one(place))
			break;
	}
}

static void finish(int *status)
{
	FILE *until;

	/* Held for longer than the command lasts: they must not keep anything open. */
	while (options.hold_ms > 10000 && runs(status))
		injected_nap(1000);
	release_due(UINT64_MAX);
	if (runs(status))
		reap_left();
	write_statistics();
	until = options.until ? fopen(options.until, "we") : NULL;
	if (until)
		fclose(until);
	while (!options.attach && runs(status))
		injected_nap(1000);
}

static void start(char *const *argv)
{
	int report[2], error = 0;

	if (pipe2(report, O_CLOEXEC))
		err(125, "pipe");
	command = fork();
	if (!command) {
		execvp(argv[0], argv);
		error = errno;
		_exit(write(report[1], &error, sizeof(error)) < 0 ? 126 : 127);
	}
	close(report[1]);
	if (command < 0 || read(report[0], &error, sizeof(error)) > 0)
		errx(127, "%s: %s", argv[0], strerror(command < 0 ? errno : error));
	close(report[0]);
}

static void read_options(int argc, char **argv)
{
	static const struct option known[] = {
		{ "alive", required_argument, NULL, 'a' },
		{ "attach", required_argument, NULL, 'p' },
		{ "awake", no_argument, NULL, 'w' },
		{ "copies", required_argument, NULL, 'n' },
		{ "foreign", no_argument, NULL, 'f' },
		{ "gap-us", required_argument, NULL, 'g' },
		{ "hold-ms", required_argument, NULL, 'h' },
		{ "limit-ms", required_argument, NULL, 'l' },
		{ "seed", required_argument, NULL, 's' },
		{ "statistics", required_argument, NULL, 'o' },
		{ "tree", no_argument, NULL, 't' },
		{ "until", required_argument, NULL, 'u' },
		{ 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "+", known, NULL)) != -1)
		switch (option) {
		case 'a': options.alive = strtoul(optarg, NULL, 10); break;
		case 'f': options.foreign = true; break;
		case 'g': options.gap_us = (unsigned)strtoul(optarg, NULL, 10); break;
		case 'h': options.hold_ms = strtoul(optarg, NULL, 10); break;
		case 'l': options.limit_ms = strtoul(optarg, NULL, 10); break;
		case 'n': options.copies = strtoul(optarg, NULL, 10); break;
		case 'o': options.statistics = optarg; break;
		case 'p': options.attach = options.foreign = true; command = atoi(optarg); break;
		case 's': options.seed = (unsigned)strtoul(optarg, NULL, 10); break;
		case 't': options.tree = true; break;
		case 'u': options.until = optarg; break;
		case 'w': options.awake = true; break;
		default: exit(125);
		}
	if (options.alive > MOST_ALIVE || (!options.attach && optind == argc))
		errx(125, "usage: copy [OPTION...] [-- COMMAND...]");
}

int main(int argc, char **argv)
{
	int status = 0;

	read_options(argc, argv);
	srand(options.seed);
	if (injected_start_injector(&injected) < 0)
		err(125, "the injector");
	if (!options.attach)
		start(argv + optind);
	signal(SIGINT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	copy_often(&status);
	finish(&status);
	if (!options.attach)
		waitpid(command, NULL, 0);
	close(injected.socket);
	waitpid(injected.injector, NULL, 0);
	return status;
}
