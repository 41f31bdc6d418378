/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which references does a natively running program make?  Copies of its threads show it. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "clock.h"
#include "complain.h"
#include "copies_options.h"
#include "program.h"
#include "sampling.h"
#include "workers.h"

/* What exists while copies are taken. */
struct run {
	struct copies_options options;
	struct workers workers;
	struct sampling sampling;
	struct program program;
	struct watch_hook hook;
	const char *failed;
	uint64_t end_ns;
	bool began;
};

/* Another program in the same folder. */
static int next_to_us(char *path, size_t size, const char *name)
{
	ssize_t length = readlink("/proc/self/exe", path, size - 1);
	char *slash;

	if (length < 0)
		return -1;
	path[length] = '\0';
	slash = strrchr(path, '/');
	if (!slash || (size_t)(slash + 2 - path) + strlen(name) > size) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(slash + 1, name);
	return 0;
}

static int begin(pid_t pid, void *context)
{
	struct run *run = context;

	if (sampling_begin(&run->sampling, pid, !run->options.pid) < 0)
		return -1;
	run->began = true;
	return 0;
}

/* Everything that is needed besides the program.  Returns 0; or -1 with errno and run->failed. */
static int prepare(struct run *run)
{
	const struct copies_options *options = &run->options;
	const struct worker_options work = {
		.window = &options->window,
		.arms = options->arms.slices ? &options->arms : NULL,
		/* The placement of memory is acted on soon. */
		.urgent = options->window.dram.l2_bytes ||
			  (options->arms.slices && (!options->pid || workers_lack_cpus())),
	};
	const uint32_t count = options->workers ? options->workers : workers_spare();
	char injector[PATH_MAX];

	run->failed = options->out;
	if (access(options->out, W_OK | X_OK) < 0)
		return -1;
	run->failed = "cannot start the processes that follow copies";
	if (workers_start(&run->workers, count, &work, options->out,
			  options->sampling.first_window) < 0)
		return -1;
	run->failed = "cannot start tlbcost-injector";
	if (next_to_us(injector, sizeof(injector), "tlbcost-injector") < 0)
		return -1;
	if (sampling_open(&run->sampling, &options->sampling, &run->workers, injector) < 0)
		return -1;
	run->hook = (struct watch_hook){ run->sampling.fd, sampling_ready, &run->sampling };
	return 0;
}

static int run_program(struct run *run)
{
	const struct program_hooks hooks = { begin, run, &run->hook };
	int code = program_run(&run->program, &hooks);

	if (code < 0)
		run->failed = run->program.failed;
	return code;
}

/* Readable when the process ends or the time is over.  Returns -1 with errno. */
static int end_of(pid_t pid, uint64_t seconds)
{
	const struct itimerspec time = { .it_value = { (time_t)seconds, 0 } };
	struct epoll_event event = { .events = EPOLLIN };
	int end = epoll_create1(EPOLL_CLOEXEC), process = (int)syscall(SYS_pidfd_open, pid, 0);
	int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);

	if (end < 0 || process < 0 || timer < 0 || timerfd_settime(timer, 0, &time, NULL) < 0 ||
	    epoll_ctl(end, EPOLL_CTL_ADD, process, &event) < 0 ||
	    epoll_ctl(end, EPOLL_CTL_ADD, timer, &event) < 0)
		return -1;
	return end;
}

static int watch_process(struct run *run)
{
	const pid_t pid = run->options.pid;
	int end = end_of(pid, run->options.seconds);

	run->failed = "cannot watch the process";
	if (end < 0 || begin(pid, run) < 0)
		return -1;
	if (program_watch(&run->program, end, &run->hook) < 0)
		return -1;
	return 0;
}

/* The name of a process's program, for the table. */
static const char *name_of(const struct run *run, char *name, size_t size)
{
	const struct copies_options *options = &run->options;
	char path[64];
	ssize_t length;

	if (!options->pid)
		return options->program.argv[0];
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)options->pid);
	length = readlink(path, name, size - 1);
	if (length < 0)
		return NULL;
	name[length] = '\0';
	return name;
}

/* Whether no copy was made, because it is forbidden or impossible. */
static const char *refused(const struct run *run)
{
	const struct copies_rows *rows = &run->sampling.rows;
	const char *why = NULL;

	for (size_t i = 0; i < rows->count; i++) {
		if (rows->all[i].pause_ns != COPIES_UNKNOWN && rows->all[i].lived_ns !=
		    COPIES_UNKNOWN)
			return NULL;
		if (!strncmp(rows->all[i].result, "refused-", 8))
			why = rows->all[i].result;
	}
	return why;
}

/* Write the tables.  Returns 0, or -1 with errno and run->failed. */
static int finish(struct run *run, const char *name)
{
	const uint32_t workers = run->workers.count;
	uint32_t lost;

	sampling_end(&run->sampling, run->options.pid > 0 || run->options.arms.slices > 0);
	lost = workers_finish(&run->workers);
	run->failed = run->options.out;
	return sampling_write(&run->sampling, run->options.out, name, workers, lost,
			      run->end_ns);
}

static int conclude(struct run *run, int code)
{
	char path[PATH_MAX];
	const char *why;

	run->end_ns = run->program.started ? run->program.result.end_ns : clock_ns();
	if (code < 0 && errno == ESRCH && run->options.pid) {
		program_discard(&run->program);
		return complain(EXIT_CANNOT_MEASURE, "cannot watch the process", "there is none",
				"ps -e lists the processes");
	}
	if (code < 0) {
		int error = errno;

		program_discard(&run->program);
		return complain(EXIT_OWN_FAILURE, run->failed, strerror(error), NULL);
	}
	if (program_close(&run->program) < 0)
		return complain(EXIT_OWN_FAILURE, run->program.failed, strerror(errno), NULL);
	if (!run->options.pid && !run->program.started)
		return complain(code, run->options.program.argv[0], code == EXIT_NOT_FOUND ?
				"not found" : "it cannot be executed", NULL);
	if (finish(run, name_of(run, path, sizeof(path))) < 0)
		return complain(EXIT_OWN_FAILURE, run->failed, strerror(errno), NULL);
	why = run->options.pid ? refused(run) : NULL;
	if (why)
		return complain(EXIT_CANNOT_MEASURE, "the process cannot be copied", why,
				strcmp(why, "refused-permission") ? NULL :
				"be root, or its user with kernel.yama.ptrace_scope 0 (sysctl)");
	return code;
}

static int follow_program(struct run *run)
{
	int code = -1;

	if (program_open(&run->program, &run->options.program) < 0) {
		run->failed = run->program.failed;
		return complain(EXIT_OWN_FAILURE, run->failed, strerror(errno), NULL);
	}
	if (prepare(run) == 0)
		code = run->options.pid ? watch_process(run) : run_program(run);
	code = conclude(run, code);
	workers_kill(&run->workers);
	sampling_close(&run->sampling);
	return code;
}

int main(int argc, char **argv)
{
	static struct run run = { .sampling = { .fd = -1, .timer = -1, .injector = -1 } };
	int code;

	if (program_hold_descriptors() < 0)
		return complain(EXIT_OWN_FAILURE, "cannot open /dev/null", strerror(errno), NULL);
	code = copies_options_parse(argc, argv, &run.options);
	return code >= 0 ? code : follow_program(&run);
}
