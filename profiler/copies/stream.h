/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads the copy's buffer of block numbers and addresses, for the watcher. */
#ifndef TLBCOST_COPIES_STREAM_H
#define TLBCOST_COPIES_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "code_cache.h"
#include "copy.h"
#include "watcher.h"

/* Most records of one block. */
#define STREAM_BLOCK_RECORDS (CODE_BLOCK_MOST_REFERENCES + CODE_BLOCK_MOST_INSTRUCTIONS + 1u)

struct stream {
	const struct translator *translator;
	const struct copy *copy;
	const struct watcher *watcher;
	uint64_t fs_base;
	bool enough;			/* the watcher wants no more: it is not called again */
	/* The last block: what comes after it is not known yet.  NULL: there is none. */
	const struct cached_block *held;
	uint64_t held_addresses[CODE_BLOCK_MOST_REFERENCES];
	uint64_t *records;		/* AREA_BUFFER_BYTES */
};

/* Returns 0, or -1 with errno ENOMEM. */
int stream_open(struct stream *stream, const struct translator *translator, const struct copy *copy,
		const struct watcher *watcher);
void stream_close(struct stream *stream);

/* The buffer is empty: its start, for AREA_NEXT. */
uint64_t stream_start(const struct stream *stream);

/*
 * Give the watcher all up to the record at address `end`, which is AREA_NEXT's, and empty the
 * buffer.  Returns 0; or -1 with errno: EPROTO if it is not what our code writes.
 */
int stream_drain(struct stream *stream);

/* The copy continues at `next`, or never (0): the last block is complete. */
void stream_settle(struct stream *stream, uint64_t next);

/* A block that was single-stepped; before it, all was drained. */
void stream_add(struct stream *stream, const struct cached_block *block, const uint64_t *addresses);

/*
 * The copy faulted at `address` in the guard page: empty its buffer, so that it can continue.
 * `first`: its register that holds where the current block's records are; set anew.  Returns as
 * stream_drain().
 */
int stream_turn(struct stream *stream, uint64_t address, unsigned long long *first);

#endif
