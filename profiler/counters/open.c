/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "open.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static long perf_event_open(struct perf_event_attr *attr, const struct open_target *target,
			    int leader)
{
	return syscall(SYS_perf_event_open, attr, target->pid, target->cpu, leader,
		       target->is_cgroup ? PERF_FLAG_PID_CGROUP : 0UL);
}

int open_counter(const struct encoding *encoding, const struct open_target *target,
		 int leader)
{
	/*
	 * Not precise: kernels refuse to count what they could only sample, and
	 * the event counts the same.  No PERF_FORMAT_GROUP: older kernels refuse
	 * it together with inherit.
	 */
	struct perf_event_attr attr = {
		.type = encoding->type,
		.size = sizeof(attr),
		.config = encoding->config,
		.config1 = encoding->config1,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED |
			       PERF_FORMAT_TOTAL_TIME_RUNNING,
		.disabled = leader < 0,
		.enable_on_exec = leader < 0 && target->on_exec,
		.inherit = target->inherit ? 1 : 0,
		.exclude_user = target->mode == COUNT_KERNEL,
		.exclude_kernel = target->mode == COUNT_USER,
		.exclude_hv = 1,
	};
	long fd = perf_event_open(&attr, target, leader);
	int error;

	/* Some drivers know no modes at all, and refuse to leave out any. */
	if (fd < 0 && errno == EINVAL && target->mode == COUNT_BOTH) {
		attr.exclude_hv = 0;
		fd = perf_event_open(&attr, target, leader);
	}
	if (fd < 0)
		return -1;
	/* Kernels before 3.14 have no flag for it. */
	if (fcntl((int)fd, F_SETFD, FD_CLOEXEC) < 0) {
		error = errno;
		close((int)fd);
		errno = error;
		return -1;
	}
	return (int)fd;
}

int start_counters(int leader)
{
	return ioctl(leader, PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
}

int stop_counters(int leader)
{
	return ioctl(leader, PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP);
}

int read_counter(int fd, struct counter_value *value)
{
	uint64_t words[3];
	ssize_t n = read(fd, words, sizeof(words));

	if (n != (ssize_t)sizeof(words)) {
		if (n >= 0)
			errno = ENODATA;
		return -1;
	}
	value->count = words[0];
	value->enabled_ns = words[1];
	value->running_ns = words[2];
	return 0;
}

const char *refusal_state(int error)
{
	switch (error) {
	case EACCES:
	case EPERM:
		return "forbidden";
	/* No such event, no such PMU, no such option of it, or a code that it lacks. */
	case ENOENT:
	case ENODEV:
	case ENXIO:
	case EOPNOTSUPP:
	case EINVAL:
		return "unsupported";
	default:
		return "failed";
	}
}
