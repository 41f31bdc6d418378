/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which events fit into one group of counters, and what did they count? */
#ifndef TLBCOST_COUNTERS_GROUP_H
#define TLBCOST_COUNTERS_GROUP_H

#include <stddef.h>
#include <stdint.h>

#include "encode.h"
#include "open.h"

/* A requested event. */
struct event {
	const char *name;
	struct encoding encoding;
	int encode_error;	/* errno of encode_event(); 0: it has an encoding */
	char *why;		/* its sentence part; NULL */
	int is_fixed;		/* has its own counter, so it always fits */
};

/* An event's place.  A first event that leads several groups has several. */
struct member {
	const struct event *event;
	int group;		/* -1: in none */
	int is_left_over;	/* could be counted, but no counter is free */
	int error;		/* errno of the refusal; 0: none */
	int *fds;		/* for each target; -1: not open there */
};

struct group {
	uint32_t source;	/* the source of all its events; 0: only the kernel so far */
	int programmable;	/* events in it that share the programmable counters */
};

/* All counters of one run.  Zeroed is empty.  The members are for reading. */
struct bank {
	struct member *members;	/* in the order of the events, then the copies */
	size_t member_count;
	size_t target_count;
	const struct open_target *targets;
	struct group *groups;
	int group_count;
	int room;		/* programmable counters of a group; 0: the kernel knows */
	int multiplex;		/* events that do not fit form a further group */
};

/*
 * Open the events on each target, in as few groups as the kernel takes: one for each source of
 * events, or, if bank->multiplex, as many as are needed, each with the first event in it.
 * Events that do not fit are left over.  A target that ended (ESRCH), or a CPU that lacks the
 * event, is left out.  Events and targets stay the caller's and must outlive the bank.
 * Returns 0; or -1 with errno if nothing at all could be opened (the members say why), or
 * ENOMEM; call bank_close() either way.
 */
int bank_open(struct bank *bank, const struct event *events, size_t event_count,
	      const struct open_target *targets, size_t target_count);

/* Let all counters count.  Returns 0, or -1 with errno. */
int bank_start(struct bank *bank);

/* Stop all counters.  Returns 0, or -1 with errno. */
int bank_stop(struct bank *bank);

/* Sum each member over the targets into values[].  Returns 0, or -1 with errno. */
int bank_read(const struct bank *bank, struct counter_value *values);

/* Is it open on at least one target, and refused on none? */
int member_is_open(const struct bank *bank, const struct member *member);

/* Close all counters.  Safe on a bank that is zeroed or closed. */
void bank_close(struct bank *bank);

#endif
