/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "attach.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "targets.h"

enum { ATTACH_TRIES = 50 };

static int fail(struct attached *attached, const char *what)
{
	attached->failed = what;
	return -1;
}

/* One target, or one for each number: a thread or a CPU. */
static int make_targets(struct attached *attached, const struct count_options *options,
			const struct open_target *like, const struct numbers *numbers)
{
	size_t count = numbers ? numbers->count : 1;
	struct open_target *targets = reallocarray(attached->targets, count, sizeof(*targets));

	if (!targets)
		return -1;
	attached->targets = targets;
	for (size_t i = 0; i < count; i++) {
		targets[i] = *like;
		if (numbers && options->scope == SCOPE_PROCESS)
			targets[i].pid = numbers->at[i];
		else if (numbers)
			targets[i].cpu = numbers->at[i];
	}
	return bank_open(&attached->bank, options->events,
			 options->event_count, targets, count);
}

static size_t count_new(const struct numbers *old, const struct numbers *now)
{
	size_t count = 0;

	for (size_t i = 0; i < now->count; i++) {
		const struct numbers one = { .at = &now->at[i], .count = 1 };

		count += !numbers_include(old, &one);
	}
	return count;
}

/*
 * A thread that appears while others are being attached may or may not be counted with its
 * creator: there is no way to know.  So everything is repeated until none appears.
 */
static int attach_process(struct attached *attached, const struct count_options *options,
			  const struct open_target *like)
{
	pid_t pid = options->pid;
	int rc;

	for (int i = 1;; i++) {
		struct numbers threads, now;

		if (targets_threads(&threads, pid) < 0)
			return fail(attached, "cannot count the process");
		rc = make_targets(attached, options, like, &threads);
		if (rc < 0 || targets_threads(&now, pid) < 0) {
			numbers_free(&threads);
			return rc < 0 ? -1 : fail(attached, "cannot count the process");
		}
		attached->missed_threads = count_new(&threads, &now);
		numbers_free(&threads);
		numbers_free(&now);
		if (!attached->missed_threads || i == ATTACH_TRIES)
			return 0;
		bank_close(&attached->bank);
	}
}

static int attach_cpus(struct attached *attached, const struct count_options *options,
		       struct open_target *like)
{
	struct numbers cpus;
	int rc, error;

	like->pid = -1;
	if (options->scope == SCOPE_CGROUP) {
		attached->cgroup_fd = targets_cgroup(options->cgroup);
		if (attached->cgroup_fd < 0)
			return fail(attached, options->cgroup);
		like->pid = attached->cgroup_fd;
		like->is_cgroup = 1;
	}
	if (targets_cpus(&cpus) < 0)
		return fail(attached, "cannot list the CPUs");
	rc = make_targets(attached, options, like, &cpus);
	error = errno;
	attached->cpus = cpus.count;
	numbers_free(&cpus);
	/* A folder that is no cgroup, or a cgroup of a hierarchy without counters. */
	if (rc < 0 && error == EBADF && like->is_cgroup) {
		errno = EOPNOTSUPP;
		return fail(attached, options->cgroup);
	}
	errno = error;
	return rc;
}

int attach_counters(struct attached *attached, const struct count_options *options, pid_t pid)
{
	struct open_target like = {
		.pid = pid, .cpu = -1, .inherit = options->inherit, .mode = options->mode,
	};

	attached->bank.room = options->room;
	attached->bank.multiplex = options->multiplex;
	switch (options->scope) {
	case SCOPE_PROCESS:
		return attach_process(attached, options, &like);
	case SCOPE_CGROUP:
	case SCOPE_SYSTEM:
		like.inherit = 0;
		return attach_cpus(attached, options, &like);
	case SCOPE_PROBE:
		like.pid = 0;
		return make_targets(attached, options, &like, NULL);
	default:
		like.on_exec = 1;
		return make_targets(attached, options, &like, NULL);
	}
}

void attached_close(struct attached *attached)
{
	bank_close(&attached->bank);
	free(attached->targets);
	attached->targets = NULL;
	if (attached->cgroup_fd >= 0)
		close(attached->cgroup_fd);
	attached->cgroup_fd = -1;
}
