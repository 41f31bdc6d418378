/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "group.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Counted by the kernel itself: joins any group, and uses no counter. */
enum { SOURCE_KERNEL = 0 };

/*
 * Only events of one source can be in a group, and sources do not take counters
 * from each other.  On a CPU with two kinds of cores each kind is a source; the
 * generic events then name it in the upper half of their config.
 */
static uint32_t source_of(const struct encoding *encoding)
{
	switch (encoding->type) {
	case PERF_TYPE_SOFTWARE:
	case PERF_TYPE_TRACEPOINT:
	case PERF_TYPE_BREAKPOINT:
		return SOURCE_KERNEL;
	case PERF_TYPE_HARDWARE:
	case PERF_TYPE_HW_CACHE:
		return encoding->config >> 32 ? (uint32_t)(encoding->config >> 32)
					      : PERF_TYPE_RAW;
	default:
		return encoding->type;
	}
}

static int takes_counter(const struct event *event)
{
	return !event->is_fixed && source_of(&event->encoding) != SOURCE_KERNEL;
}

static struct member *add_member(struct bank *bank, const struct event *event)
{
	struct member *members = reallocarray(bank->members, bank->member_count + 1,
					      sizeof(*members));
	struct member *member;

	if (!members)
		return NULL;
	bank->members = members;
	member = &members[bank->member_count];
	*member = (struct member){ .event = event, .group = -1 };
	member->fds = calloc(bank->target_count, sizeof(*member->fds));
	if (!member->fds)
		return NULL;
	for (size_t t = 0; t < bank->target_count; t++)
		member->fds[t] = -1;
	bank->member_count++;
	return member;
}

/* The first counter of the group that is open on the target, or -1. */
static int leader(const struct bank *bank, int group, size_t target)
{
	for (size_t m = 0; m < bank->member_count; m++)
		if (bank->members[m].group == group && bank->members[m].fds[target] >= 0)
			return bank->members[m].fds[target];
	return -1;
}

/* Returns the descriptor, or -1 with errno. */
static int try_open(const struct bank *bank, const struct event *event, int group,
		    size_t target)
{
	return open_counter(&event->encoding, &bank->targets[target],
			    group < 0 ? -1 : leader(bank, group, target));
}

static void place(struct bank *bank, struct member *member, int group, size_t target,
		  int fd)
{
	struct group *at = &bank->groups[group];

	member->group = group;
	member->fds[target] = fd;
	member->error = 0;
	at->programmable += takes_counter(member->event);
	if (at->source == SOURCE_KERNEL)
		at->source = source_of(&member->event->encoding);
}

/* Returns the number of the new group, or -1 with errno. */
static int add_group(struct bank *bank)
{
	struct group *groups = reallocarray(bank->groups, (size_t)bank->group_count + 1,
					    sizeof(*groups));

	if (!groups)
		return -1;
	bank->groups = groups;
	groups[bank->group_count] = (struct group){ .source = SOURCE_KERNEL };
	return bank->group_count++;
}

/* The last group that an event of this source may be in, or -1. */
static int group_for(const struct bank *bank, uint32_t source)
{
	for (int g = bank->group_count - 1; g >= 0; g--)
		if (source == SOURCE_KERNEL || bank->groups[g].source == source ||
		    bank->groups[g].source == SOURCE_KERNEL)
			return g;
	return -1;
}

/* Put the first event into a new group too, so that ratios are of the same time. */
static int add_copy(struct bank *bank, int group, uint32_t source, size_t target)
{
	const struct event *first = bank->members[0].event;
	struct member *copy;
	int fd;

	if (bank->members[0].group < 0 || source_of(&first->encoding) != source)
		return 0;
	copy = add_member(bank, first);
	if (!copy)
		return -1;
	fd = try_open(bank, first, group, target);
	if (fd < 0)
		copy->error = errno;
	else
		place(bank, copy, group, target, fd);
	return 0;
}

/*
 * Find a group for an event.  `index`, because members move when one is added.
 * Returns 0 if that is decided, with the member's error if it was refused; -1
 * with errno if there is no memory.
 */
static int settle(struct bank *bank, size_t index, size_t target)
{
	const struct event *event = bank->members[index].event;
	uint32_t source = source_of(&event->encoding);
	int group = group_for(bank, source);
	int fd = -1, full;

	full = group >= 0 && bank->room && takes_counter(event) &&
	       bank->groups[group].programmable >= bank->room;
	if (group >= 0 && !full) {
		fd = try_open(bank, event, group, target);
		full = fd < 0 && errno == EINVAL;
	}
	/* No free counter, or refused for another reason?  Opening it alone shows. */
	if (group < 0 || full)
		fd = try_open(bank, event, -1, target);
	if (fd < 0) {
		bank->members[index].error = errno;
		return 0;
	}
	if (!full && group >= 0) {
		place(bank, &bank->members[index], group, target, fd);
		return 0;
	}
	if (full && !bank->multiplex) {
		bank->members[index].is_left_over = 1;
		close(fd);
		return 0;
	}
	group = add_group(bank);
	if (group < 0) {
		close(fd);
		return -1;
	}
	place(bank, &bank->members[index], group, target, fd);
	return full ? add_copy(bank, group, source, target) : 0;
}

/* Is the event just missing on one target among others? */
static int is_absent(int error)
{
	return error == ESRCH || error == ENODEV || error == ENOENT ||
	       error == EOPNOTSUPP || error == ENXIO;
}

static int is_on_any(const struct bank *bank, const struct member *member)
{
	for (size_t t = 0; t < bank->target_count; t++)
		if (member->fds[t] >= 0)
			return 1;
	return 0;
}

static int open_target(struct bank *bank, size_t target)
{
	for (size_t m = 0; m < bank->member_count; m++) {
		struct member *member = &bank->members[m];

		if (member->event->encode_error || member->is_left_over ||
		    member->fds[target] >= 0)
			continue;
		if (member->group < 0) {
			if (settle(bank, m, target) < 0)
				return -1;
			continue;
		}
		member->fds[target] = try_open(bank, member->event, member->group, target);
		/* One refused on some targets would silently count too little. */
		if (member->fds[target] < 0 && !is_absent(errno))
			member->error = errno;
	}
	return 0;
}

int bank_open(struct bank *bank, const struct event *events, size_t event_count,
	      const struct open_target *targets, size_t target_count)
{
	int error = ENOENT, opened = 0;

	bank->targets = targets;
	bank->target_count = target_count;
	for (size_t e = 0; e < event_count; e++)
		if (!add_member(bank, &events[e]))
			return -1;
	for (size_t t = 0; t < target_count; t++)
		if (open_target(bank, t) < 0)
			return -1;
	for (size_t m = bank->member_count; m-- > 0;) {
		struct member *member = &bank->members[m];

		opened |= member_is_open(bank, member);
		if (member->error)
			error = member->error;
	}
	errno = error;
	return opened ? 0 : -1;
}

/* The leader switches the whole group. */
static int on_leaders(struct bank *bank, int (*act)(int leader))
{
	for (size_t t = 0; t < bank->target_count; t++)
		for (int g = 0; g < bank->group_count; g++) {
			int fd = leader(bank, g, t);

			if (fd >= 0 && act(fd) < 0)
				return -1;
		}
	return 0;
}

int bank_start(struct bank *bank)
{
	return on_leaders(bank, start_counters);
}

int bank_stop(struct bank *bank)
{
	return on_leaders(bank, stop_counters);
}

int bank_read(const struct bank *bank, struct counter_value *values)
{
	for (size_t m = 0; m < bank->member_count; m++) {
		struct counter_value *sum = &values[m];

		*sum = (struct counter_value){ 0 };
		for (size_t t = 0; t < bank->target_count; t++) {
			struct counter_value value;

			if (bank->members[m].fds[t] < 0)
				continue;
			if (read_counter(bank->members[m].fds[t], &value) < 0)
				return -1;
			sum->count += value.count;
			sum->enabled_ns += value.enabled_ns;
			sum->running_ns += value.running_ns;
		}
	}
	return 0;
}

int member_is_open(const struct bank *bank, const struct member *member)
{
	return !member->error && is_on_any(bank, member);
}

void bank_close(struct bank *bank)
{
	for (size_t m = 0; m < bank->member_count; m++) {
		for (size_t t = 0; t < bank->target_count; t++)
			if (bank->members[m].fds[t] >= 0)
				close(bank->members[m].fds[t]);
		free(bank->members[m].fds);
	}
	free(bank->members);
	free(bank->groups);
	*bank = (struct bank){ .room = bank->room, .multiplex = bank->multiplex };
}
