/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Where in a program do its TLB misses and page walks come from? */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "complain.h"
#include "drain.h"
#include "hits_table.h"
#include "program.h"
#include "record_options.h"

/* What exists while a recording runs. */
struct recording {
	const struct record_options *options;
	struct sampler sampler;
	struct profile profile;
	struct drain drain;
	struct watch_hook hook;
	uint64_t start_ns, end_ns;
	int attached;		/* the counters are open; else why: */
	int refused;		/* errno */
};

static void fail(const char *what) __attribute__((noreturn));

static void fail(const char *what)
{
	exit(complain(EXIT_OWN_FAILURE, what, strerror(errno), NULL));
}

/* Events that cannot be sampled: the hint depends on what refuses them. */
static const char *remedy(const struct record_options *options, int error)
{
	switch (error) {
	case EACCES:
	case EPERM:
		if (options->pid < 0)
			return "be root, or set kernel.perf_event_paranoid to 0 (sysctl), "
			       "to sample all processes";
		if (options->sampler.user_only)
			return "be root, or set kernel.perf_event_paranoid to 2 or less (sysctl)";
		return "--user-only, or set kernel.perf_event_paranoid to 1 (sysctl)";
	case ENOENT:
	case ENODEV:
	case EOPNOTSUPP:
	case ENXIO:
		return "no counter here can sample it; "
		       "--event faults=perf::PAGE-FAULTS works on any machine";
	case EMFILE:
		return "ulimit -n shows the limit of open files, which CPUs times threads "
		       "times events exceed";
	case EINVAL:
		return "the kernel refuses this period or this combination of options";
	default:
		return NULL;
	}
}

static void tell_refused(const struct record_options *options)
{
	for (size_t i = 0; i < options->event_count && !options->quiet; i++) {
		const struct sampled_event *event = &options->events[i];
		const char *hint = event->error ? remedy(options, event->error) : NULL;

		if (event->error)
			fprintf(stderr, "tlbcost: cannot sample %s: %s\n", event->name,
				event->unknown ? "no such event is known here" :
				strerror(event->error));
		if (hint)
			fprintf(stderr, "tlbcost: hint: %s\n", hint);
	}
}

static int open_events(struct recording *recording, pid_t pid)
{
	struct sampler *sampler = &recording->sampler;
	pid_t target = recording->options->pid;

	if (target > 0)
		return sampler_open_process(sampler, target);
	return sampler_open(sampler, target < 0 ? -1 : pid);
}

/* Open the counters and begin.  Called while the program waits. */
static int attach(pid_t pid, void *context)
{
	struct recording *recording = context;

	if (open_events(recording, pid) < 0) {
		recording->refused = errno;
		return -1;
	}
	if (sampler_start(&recording->sampler) < 0 ||
	    drain_open(&recording->drain, &recording->sampler, &recording->profile) < 0)
		return -1;
	recording->attached = 1;
	recording->hook.fd = recording->drain.fd;
	recording->start_ns = clock_ns();
	/* After the start: changes during reading are in the buffers. */
	return profile_begin(&recording->profile, recording->options->pid);
}

static int record_program(struct recording *recording, struct program *program)
{
	const struct program_hooks hooks = { attach, recording, &recording->hook };

	return program_run(program, &hooks);
}

static int record_others(struct recording *recording, struct program *program)
{
	pid_t pid = recording->options->pid;
	/* The end of a process must be known before the process is read. */
	int ended = pid > 0 ? (int)syscall(SYS_pidfd_open, pid, 0) : -1;
	int rc = 0;

	if (pid > 0 && ended < 0) {
		if (errno == ESRCH)
			recording->refused = errno;
		program->failed = "cannot watch the process";
		return -1;
	}
	if (attach(0, recording) < 0)
		rc = -1;
	else if (watch_others(&program->signals, ended, &recording->hook) < 0)
		rc = -1;
	if (rc < 0)
		program->failed = "cannot watch the process";
	return rc;
}

static void tell_losses(const struct recording *recording)
{
	const struct profile *profile = &recording->profile;

	if (profile->failed)
		fprintf(stderr, "tlbcost: %llu records were lost because memory ran out\n",
			(unsigned long long)profile->failed);
	if (profile->damaged_bytes)
		fprintf(stderr, "tlbcost: %llu bytes from the kernel were not valid records\n",
			(unsigned long long)profile->damaged_bytes);
}

/* Write the samples, or that nothing could be sampled.  Returns 0, or -1 with errno. */
static int finish(struct recording *recording, const struct program *program)
{
	const struct record_options *options = recording->options;
	const uint64_t end_ns =
		program->started ? program->result.end_ns : recording->end_ns;
	const struct hits_table table = {
		.sampler = &recording->sampler,
		.profile = &recording->profile,
		.options = options,
		.duration_ns = recording->attached ? end_ns - recording->start_ns : 0,
	};

	tell_refused(options);
	tell_losses(recording);
	return hits_table_write(&table, options->output);
}

/* Nothing was recorded: print why.  Returns the exit code. */
static int give_up(struct recording *recording, struct program *program)
{
	const struct record_options *options = recording->options;
	int error = errno;

	program_discard(program);
	if (!recording->refused)
		return complain(EXIT_OWN_FAILURE, program->failed, strerror(error), NULL);
	/* An error of all events, such as too few descriptors, is one of each. */
	for (size_t i = 0; i < options->event_count; i++)
		if (!options->events[i].error)
			options->events[i].error = recording->refused;
	if (finish(recording, program) < 0)
		fail(options->output);
	return EXIT_CANNOT_MEASURE;
}

/* Write what was recorded, if anything.  Returns the exit code. */
static int conclude(struct recording *recording, struct program *program, int code)
{
	const struct record_options *options = recording->options;

	if (code < 0)
		return give_up(recording, program);
	drain_close(&recording->drain);
	if (program_close(program) < 0)
		fail(program->failed);
	/* A program that never ran has no samples.  The table of the run says why. */
	if (options->program.argv && !program->started) {
		if (!options->quiet)
			fprintf(stderr, "tlbcost: cannot start %s: %s\n",
				options->program.argv[0], code == EXIT_NOT_FOUND ?
				"not found" : "it cannot be executed");
		return code;
	}
	if (finish(recording, program) < 0)
		fail(options->output);
	return code;
}

static int record(const struct record_options *options)
{
	struct recording recording = {
		.options = options,
		.profile = {
			.sampler = &recording.sampler,
			.addresses = options->sampler.addresses,
			.one_by_one = options->one_by_one,
			.user_only = options->sampler.user_only,
			.kernel_only = options->sampler.kernel_only,
		},
		.hook = { .fd = -1, .ready = drain_ready, .context = &recording.drain },
	};
	struct program program;
	int code;

	if (program_open(&program, &options->program) < 0)
		fail(program.failed);
	if (hits_table_try(options->output) < 0) {
		int error = errno;

		program_discard(&program);
		errno = error;
		fail(options->output);
	}
	if (sampler_init(&recording.sampler, &options->sampler, options->events,
			 options->event_count) < 0)
		fail("cannot list the CPUs of this machine");
	code = options->program.argv ? record_program(&recording, &program) :
				       record_others(&recording, &program);
	recording.end_ns = clock_ns();
	code = conclude(&recording, &program, code);
	sampler_close(&recording.sampler);
	profile_free(&recording.profile);
	return code;
}

int main(int argc, char **argv)
{
	struct record_options options;
	int code;

	if (program_hold_descriptors() < 0)
		fail("cannot open /dev/null");
	code = record_options_parse(argc, argv, &options);
	if (code >= 0)
		return code;
	code = record(&options);
	record_options_free(&options);
	return code;
}
