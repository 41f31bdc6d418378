/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "drain.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

/*
 * Buffers that do not become half full are emptied this often, so that their contents are
 * recent.
 */
enum { PERIOD_NS = 100000000 };

static int watch(const struct drain *drain, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data = { .fd = fd } };

	return epoll_ctl(drain->fd, EPOLL_CTL_ADD, fd, &event);
}

int drain_open(struct drain *drain, struct sampler *sampler, struct profile *profile)
{
	const struct itimerspec period = { { 0, PERIOD_NS }, { 0, PERIOD_NS } };
	int error;

	memset(drain, 0, sizeof(*drain));
	drain->sampler = sampler;
	drain->profile = profile;
	drain->fd = epoll_create1(EPOLL_CLOEXEC);
	drain->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (drain->fd < 0 || drain->timer < 0 || watch(drain, drain->timer) < 0 ||
	    timerfd_settime(drain->timer, 0, &period, NULL) < 0)
		goto failed;
	for (size_t i = 0; i < sampler->cpu_count; i++)
		if (sampler->cpus[i].fd >= 0 && watch(drain, sampler->cpus[i].fd) < 0)
			goto failed;
	return 0;
failed:
	error = errno;
	close(drain->fd);
	close(drain->timer);
	errno = error;
	return -1;
}

/* Read every buffer once. */
static void fetch(struct drain *drain)
{
	struct profile *profile = drain->profile;

	for (size_t i = 0; i < drain->sampler->cpu_count; i++) {
		struct ring *ring = &drain->sampler->cpus[i].ring;
		size_t size = ring->memory ? ring_waiting(ring) : 0;
		void *room = size ? rounds_room(&drain->rounds, size) : NULL;
		long damaged;

		if (!room) {
			/* It remains in the buffer: the next round may find memory. */
			profile->failed += size != 0;
			continue;
		}
		ring_take(ring, room, size);
		damaged = rounds_add(&drain->rounds, size, profile->addresses);
		if (damaged < 0)
			profile->failed++;
		else
			profile->damaged_bytes += (uint64_t)damaged;
	}
}

static void one_round(struct drain *drain, int last)
{
	fetch(drain);
	rounds_flush(&drain->rounds, last, profile_record, drain->profile);
	mappings_round(&drain->profile->mappings);
}

int drain_ready(void *context)
{
	struct drain *drain = context;
	struct epoll_event events[64];
	uint64_t expirations;
	int count = epoll_wait(drain->fd, events, 64, 0);

	/* The buffer of an ended thread stays readable for ever. */
	for (int i = 0; i < count; i++)
		if (events[i].events & (EPOLLHUP | EPOLLERR))
			epoll_ctl(drain->fd, EPOLL_CTL_DEL, events[i].data.fd, NULL);
	if (read(drain->timer, &expirations, sizeof(expirations)) < 0 && errno != EAGAIN)
		return -1;
	one_round(drain, 0);
	return 0;
}

void drain_close(struct drain *drain)
{
	sampler_stop(drain->sampler);
	one_round(drain, 1);
	rounds_free(&drain->rounds);
	close(drain->fd);
	close(drain->timer);
}
