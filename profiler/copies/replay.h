/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * A copy makes no system calls: each returns what the program itself got from it (recorder.h), so
 * that windows of servers do not end at the first.  Memory calls are made for real, with the same
 * addresses.
 */
#ifndef TLBCOST_COPIES_REPLAY_H
#define TLBCOST_COPIES_REPLAY_H

#include <stddef.h>
#include <stdint.h>

#include "calls.h"
#include "copy.h"

struct recording {
	uint8_t *records;	/* NULL: there are none */
	size_t bytes, next;	/* next: offset of the record that comes next */
	uint64_t at_ns;		/* CLOCK_MONOTONIC when the last replayed call returned, or 0 */
};

/* Map what the injector recorded; `file` may be closed then.  Returns 0, or -1 with errno. */
int recording_open(struct recording *recording, int file);
void recording_close(struct recording *recording);

/* How many there are from the next one on. */
uint64_t recording_calls(const struct recording *recording);

enum replayed {
	REPLAY_NOTHING,		/* the next recorded call is another one */
	REPLAY_ANSWERED,	/* outputs are written, the result is in rax */
	REPLAY_REAL,		/* make it as the registers now say; it must return `result` */
};

/*
 * The copy is about to make the call of its registers.  Returns an enum replayed, or -1 with errno.
 */
int replay(struct recording *recording, struct copy *copy, struct user_regs_struct *registers,
	   const struct call_limits *limits, int64_t *result);

/* How many bytes of records come before the first that changes memory that was shared. */
size_t recording_private_bytes(const struct recording *recording,
			       const struct shared_memory *shared);

#endif
