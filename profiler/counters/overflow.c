/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "overflow.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "parse.h"

/* Newer than the headers of some systems that this is built on. */
#define READ_LOST (1u << 4)

/* What read() of a counter returns. */
struct reading {
	uint64_t count, enabled_ns, running_ns, lost;
};

static int open_event(struct perf_event_attr *attr, pid_t pid, int cpu)
{
	return (int)syscall(SYS_perf_event_open, attr, pid, cpu, -1,
			    PERF_FLAG_FD_CLOEXEC);
}

static struct perf_event_attr common_attr(const struct sampler_options *options, pid_t pid)
{
	return (struct perf_event_attr){
		.size = sizeof(struct perf_event_attr),
		.disabled = 1,
		.inherit = pid > 0,
		.enable_on_exec = options->on_exec != 0,
		.sample_type = PARSE_SAMPLE_TYPE,
		.sample_id_all = 1,
		/* Wake us when the buffer is half full. */
		.watermark = 1,
		.use_clockid = 1,
		.clockid = CLOCK_MONOTONIC,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED |
			       PERF_FORMAT_TOTAL_TIME_RUNNING | READ_LOST,
	};
}

static struct perf_event_attr watcher_attr(const struct sampler_options *options, pid_t pid)
{
	struct perf_event_attr attr = common_attr(options, pid);

	attr.type = PERF_TYPE_SOFTWARE;
	attr.config = PERF_COUNT_SW_DUMMY;
	attr.exclude_kernel = 1;
	attr.mmap = 1;
	attr.mmap2 = 1;
	attr.mmap_data = options->addresses != 0;
	attr.comm = 1;
	attr.comm_exec = 1;
	attr.task = 1;
	attr.build_id = 1;
	return attr;
}

static struct perf_event_attr event_attr(const struct sampled_event *event,
					 const struct sampler_options *options,
					 pid_t pid)
{
	struct perf_event_attr attr = common_attr(options, pid);

	attr.type = event->encoding.type;
	attr.config = event->encoding.config;
	attr.config1 = event->encoding.config1;
	attr.precise_ip = (unsigned)event->encoding.precise & 3u;
	/* Guests cannot be sampled precisely. */
	attr.exclude_guest = attr.precise_ip != 0;
	if (!event->all_modes) {
		attr.exclude_user = options->kernel_only != 0;
		attr.exclude_kernel = options->user_only != 0;
		attr.exclude_hv = options->user_only != 0;
	}
	if (event->frequency) {
		attr.freq = 1;
		attr.sample_freq = event->frequency;
		/*
		 * With a fixed period it would make the kernel sample every single one of its
		 * own events (page faults) instead.
		 */
		attr.sample_type |= PERF_SAMPLE_PERIOD;
	} else {
		attr.sample_period = event->period;
	}
	if (options->addresses)
		attr.sample_type |= PERF_SAMPLE_ADDR | PERF_SAMPLE_DATA_SRC;
	return attr;
}

/* Kernels before 6.0 do not report what a counter lost, kernels before 5.12 no build ids. */
int overflow_open_watcher(const struct sampler_options *options, pid_t pid, int cpu)
{
	struct perf_event_attr attr = watcher_attr(options, pid);
	int fd = open_event(&attr, pid, cpu);

	if (fd < 0 && errno == EINVAL) {
		attr.read_format &= ~(uint64_t)READ_LOST;
		fd = open_event(&attr, pid, cpu);
	}
	if (fd < 0 && errno == EINVAL) {
		attr.build_id = 0;
		fd = open_event(&attr, pid, cpu);
	}
	return fd;
}

/*
 * Open a counter with fewer and fewer optional features: the count of lost
 * samples; periods that are no multiple of 16, and leaving out a mode (AMD's
 * instruction-based sampling has neither).
 */
int overflow_open(struct sampled_event *event, const struct sampler_options *options,
		  pid_t pid, int cpu)
{
	struct perf_event_attr attr = event_attr(event, options, pid);
	int fd = open_event(&attr, pid, cpu);

	if (fd < 0 && errno == EINVAL) {
		attr.read_format &= ~(uint64_t)READ_LOST;
		fd = open_event(&attr, pid, cpu);
	}
	/* Only event sources outside the core have their own numbers. */
	if (fd >= 0 || errno != EINVAL || event->encoding.type < PERF_TYPE_MAX)
		return fd;
	if (event->period >= 16) {
		event->period &= ~(uint64_t)15;
		attr.sample_period = event->period;
	}
	fd = open_event(&attr, pid, cpu);
	if (fd < 0 && errno == EINVAL && (attr.exclude_user || attr.exclude_kernel)) {
		attr.exclude_user = attr.exclude_kernel = attr.exclude_hv = 0;
		fd = open_event(&attr, pid, cpu);
		event->all_modes = fd >= 0;
	}
	return fd;
}

void overflow_read(struct sampled_event *event, int fd, uint64_t *lost)
{
	struct reading reading = { 0 };

	/* Kernels that do not know the last field do not return it. */
	if (read(fd, &reading, sizeof(reading)) < (ssize_t)(3 * sizeof(uint64_t)))
		return;
	event->counted = 1;
	event->count += reading.count;
	event->enabled_ns += reading.enabled_ns;
	event->running_ns += reading.running_ns;
	*lost += reading.lost;
}
