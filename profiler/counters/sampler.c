/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "sampler.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "targets.h"

/*
 * A buffer holds what arrives while we are not running: at most 64 MiB on all CPUs, if the
 * kernel allows that, which is 40 ms of the fastest sampling.
 */
enum { ALL_BUFFERS = 64 << 20, LEAST_BUFFER = 512 << 10, MOST_BUFFER = 4 << 20 };

static int list_cpus(struct sampler *sampler)
{
	struct numbers online = { 0 };

	if (targets_cpus(&online) < 0)
		return -1;
	sampler->cpus = calloc(online.count + 1, sizeof(*sampler->cpus));
	for (size_t i = 0; i < online.count && sampler->cpus; i++)
		sampler->cpus[i] = (struct sampler_cpu){ .cpu = online.at[i], .fd = -1 };
	sampler->cpu_count = sampler->cpus ? online.count : 0;
	numbers_free(&online);
	return sampler->cpus ? 0 : -1;
}

int sampler_init(struct sampler *sampler, const struct sampler_options *options,
		 struct sampled_event *events, size_t event_count)
{
	memset(sampler, 0, sizeof(*sampler));
	sampler->options = *options;
	sampler->events = events;
	sampler->event_count = event_count;
	return list_cpus(sampler);
}

/* Many CPUs and threads need many descriptors: raise our limit to the maximum allowed. */
static void allow_descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
	}
}

static size_t buffer_bytes(const struct sampler *sampler)
{
	size_t each = ALL_BUFFERS / sampler->cpu_count, bytes = LEAST_BUFFER;

	while (bytes < MOST_BUFFER && 2 * bytes <= each)
		bytes *= 2;
	return bytes;
}

static int keep_watcher(struct sampler *sampler, int fd)
{
	if (sampler->watcher_count == sampler->watcher_room) {
		size_t room = sampler->watcher_room ? 2 * sampler->watcher_room : 16;
		int *watchers = realloc(sampler->watchers, room * sizeof(*watchers));

		if (!watchers)
			return -1;
		sampler->watchers = watchers;
		sampler->watcher_room = room;
	}
	sampler->watchers[sampler->watcher_count++] = fd;
	return 0;
}

/* Returns 1 if the CPU went offline. */
static int add_watcher(struct sampler *sampler, struct sampler_cpu *cpu, pid_t pid)
{
	int fd = overflow_open_watcher(&sampler->options, pid, cpu->cpu);
	int error;

	if (fd < 0)
		return errno == ENODEV ? 1 : -1;
	if (cpu->fd < 0) {
		if (ring_map(&cpu->ring, fd, buffer_bytes(sampler)) == 0) {
			cpu->fd = fd;
			return 0;
		}
	} else if (ioctl(fd, PERF_EVENT_IOC_SET_OUTPUT, cpu->fd) == 0 &&
		   keep_watcher(sampler, fd) == 0) {
		return 0;
	}
	error = errno;
	close(fd);
	errno = error;
	return -1;
}

static int keep_counter(struct sampler *sampler, const struct sampler_counter *counter)
{
	if (sampler->count == sampler->room) {
		size_t room = sampler->room ? 2 * sampler->room : 64;
		struct sampler_counter *counters =
			realloc(sampler->counters, room * sizeof(*counters));

		if (!counters)
			return -1;
		sampler->counters = counters;
		sampler->room = room;
	}
	sampler->counters[sampler->count++] = *counter;
	return 0;
}

static int add_counter(struct sampler *sampler, const struct sampler_cpu *cpu,
		       uint32_t number, pid_t pid)
{
	struct sampled_event *event = &sampler->events[number];
	struct sampler_counter counter = {
		.fd = overflow_open(event, &sampler->options, pid, cpu->cpu),
		.event = number,
		/*
		 * A thread's time passes for the counters of all CPUs, though it runs on one:
		 * the first one's is used.
		 */
		.times = pid < 0 || cpu == sampler->cpus,
	};
	int error;

	if (counter.fd < 0)
		return -1;
	if (ioctl(counter.fd, PERF_EVENT_IOC_SET_OUTPUT, cpu->fd) == 0 &&
	    ioctl(counter.fd, PERF_EVENT_IOC_ID, &counter.id) == 0 &&
	    keep_counter(sampler, &counter) == 0)
		return 0;
	error = errno;
	close(counter.fd);
	errno = error;
	return -1;
}

/* Is it a limit of the machine or the user, independent of the event? */
static int is_general(int error)
{
	return error == EMFILE || error == ENFILE || error == ENOMEM || error == ESRCH;
}

static int compare_ids(const void *left, const void *right)
{
	const struct sampler_counter *a = left, *b = right;

	return a->id < b->id ? -1 : a->id > b->id;
}

/* Open those events that can be opened on one CPU, and record which. */
static int open_on_cpu(struct sampler *sampler, struct sampler_cpu *cpu, pid_t pid,
		       int *opened)
{
	int rc = add_watcher(sampler, cpu, pid);

	if (rc)
		return rc < 0 ? -1 : 0;
	for (uint32_t i = 0; i < sampler->event_count; i++) {
		if (sampler->events[i].unknown)
			continue;
		if (add_counter(sampler, cpu, i, pid) == 0)
			opened[i] = 1;
		else if (is_general(errno))
			return -1;
		else
			sampler->events[i].error = errno;
	}
	return 0;
}

int sampler_open(struct sampler *sampler, pid_t pid)
{
	int *opened = calloc(sampler->event_count + 1, sizeof(*opened));
	int any = 0, error = 0;

	if (!opened)
		return -1;
	allow_descriptors();
	for (size_t i = 0; i < sampler->cpu_count && !error; i++)
		if (open_on_cpu(sampler, &sampler->cpus[i], pid, opened) < 0)
			error = errno;
	for (size_t i = 0; i < sampler->event_count; i++) {
		/* CPUs of different kinds have different events. */
		if (opened[i])
			sampler->events[i].error = 0;
		any |= opened[i];
	}
	if (!error && !any)
		error = sampler->event_count ? sampler->events[0].error : EINVAL;
	free(opened);
	if (sampler->count)
		qsort(sampler->counters, sampler->count, sizeof(*sampler->counters),
		      compare_ids);
	errno = error;
	return error ? -1 : 0;
}

int sampler_open_process(struct sampler *sampler, pid_t pid)
{
	struct numbers seen = { 0 }, now = { 0 };
	int rc = targets_threads(&now, pid);

	/* Threads that start while we read the list are in the next list. */
	while (rc == 0 && !numbers_include(&seen, &now)) {
		for (size_t i = 0; i < now.count && rc == 0; i++) {
			const struct numbers one = { &now.at[i], 1 };

			/* One that has ended since needs nothing. */
			if (!numbers_include(&seen, &one) &&
			    sampler_open(sampler, now.at[i]) < 0 && errno != ESRCH)
				rc = -1;
		}
		numbers_free(&seen);
		seen = now;
		now = (struct numbers){ 0 };
		if (rc == 0)
			rc = targets_threads(&now, pid);
	}
	numbers_free(&seen);
	numbers_free(&now);
	return rc;
}

static int command_all(const struct sampler *sampler, unsigned long command)
{
	int result = 0;

	for (size_t i = 0; i < sampler->cpu_count; i++)
		if (sampler->cpus[i].fd >= 0)
			result |= ioctl(sampler->cpus[i].fd, command, 0);
	for (size_t i = 0; i < sampler->watcher_count; i++)
		result |= ioctl(sampler->watchers[i], command, 0);
	for (size_t i = 0; i < sampler->count; i++)
		result |= ioctl(sampler->counters[i].fd, command, 0);
	return result;
}

int sampler_start(struct sampler *sampler)
{
	return sampler->options.on_exec ? 0 : command_all(sampler, PERF_EVENT_IOC_ENABLE);
}

void sampler_stop(struct sampler *sampler)
{
	command_all(sampler, PERF_EVENT_IOC_DISABLE);
	for (size_t i = 0; i < sampler->count; i++) {
		const struct sampler_counter *counter = &sampler->counters[i];
		struct sampled_event *event = &sampler->events[counter->event];
		uint64_t enabled_ns = event->enabled_ns;

		overflow_read(event, counter->fd, &sampler->lost);
		if (!counter->times)
			event->enabled_ns = enabled_ns;
	}
}

const struct sampled_event *sampler_event(const struct sampler *sampler, uint64_t id)
{
	const struct sampler_counter key = { .id = id };
	const struct sampler_counter *found = NULL;

	if (sampler->count)
		found = bsearch(&key, sampler->counters, sampler->count, sizeof(key),
				compare_ids);
	return found ? &sampler->events[found->event] : NULL;
}

void sampler_close(struct sampler *sampler)
{
	for (size_t i = 0; i < sampler->count; i++)
		close(sampler->counters[i].fd);
	for (size_t i = 0; i < sampler->watcher_count; i++)
		close(sampler->watchers[i]);
	for (size_t i = 0; i < sampler->cpu_count; i++) {
		ring_unmap(&sampler->cpus[i].ring);
		if (sampler->cpus[i].fd >= 0)
			close(sampler->cpus[i].fd);
	}
	free(sampler->counters);
	free(sampler->watchers);
	free(sampler->cpus);
	memset(sampler, 0, sizeof(*sampler));
}
