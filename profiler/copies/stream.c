/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "area.h"
#include "translate.h"

int stream_open(struct stream *stream, const struct translator *translator, const struct copy *copy,
		const struct watcher *watcher)
{
	*stream = (struct stream){ .translator = translator, .copy = copy, .watcher = watcher,
				   .fs_base = copy->start.fs_base };
	stream->records = malloc(AREA_BUFFER_BYTES);
	return stream->records ? 0 : -1;
}

void stream_close(struct stream *stream)
{
	free(stream->records);
	stream->records = NULL;
}

uint64_t stream_start(const struct translator *translator)
{
	return translator->area + AREA_BUFFER;
}

/* A repeated instruction: where each operand began, and where the last one ended. */
static const uint64_t *read_string(const struct cached_block *block, unsigned *index,
				   const uint64_t *record, uint64_t *addresses)
{
	const unsigned begin = *index;
	unsigned end = begin;
	int64_t length;

	while (end < block->code.reference_count &&
	       (block->slots[end].source == SLOT_STRING || block->slots[end].source == SLOT_LENGTH) &&
	       block->code.references[end].instruction == block->code.references[begin].instruction) {
		if (block->slots[end].source == SLOT_STRING)
			addresses[end] = *record++;
		end++;
	}
	length = (int64_t)(*record++ - addresses[end - 2]);
	for (unsigned i = begin; i < end; i += 2) {
		/* The direction flag was set: it went down. */
		if (length < 0)
			addresses[i] += (uint64_t)length + block->code.references[i].bytes;
		addresses[i + 1] = (uint64_t)(length < 0 ? -length : length);
	}
	*index = end;
	return record;
}

static void read_mixed(const struct cached_block *block, uint64_t fs_base, const uint64_t *record,
		       uint64_t *addresses)
{
	for (unsigned i = 0; i < block->code.reference_count;) {
		const struct slot slot = block->slots[i];

		switch ((enum slot_source)slot.source) {
		case SLOT_RECORD:
			addresses[i] = *record++ + (uint64_t)slot.displacement;
			break;
		case SLOT_FS_RECORD:
			addresses[i] = *record++ + (uint64_t)slot.displacement + fs_base;
			break;
		case SLOT_FIXED:
			addresses[i] = (uint64_t)slot.displacement;
			break;
		case SLOT_FS_FIXED:
			addresses[i] = (uint64_t)slot.displacement + fs_base;
			break;
		case SLOT_STRING:
		case SLOT_LENGTH:
			record = read_string(block, &i, record, addresses);
			continue;
		}
		i++;
	}
}

static inline void read_block(const struct cached_block *block, uint64_t fs_base,
			      const uint64_t *record, uint64_t *addresses)
{
	if (!block->plain) {
		read_mixed(block, fs_base, record, addresses);
		return;
	}
	for (unsigned i = 0; i < block->code.reference_count; i++)
		addresses[i] = record[i] + (uint64_t)block->slots[i].displacement;
}

void stream_settle(struct stream *stream, uint64_t next)
{
	const struct watcher *watcher = stream->watcher;

	if (stream->held && !stream->enough)
		stream->enough = !watcher->executed(watcher->context, &stream->held->code,
						    stream->held_addresses, next);
	stream->held = NULL;
}

void stream_add(struct stream *stream, const struct cached_block *block, const uint64_t *addresses)
{
	stream_settle(stream, block->code.address);
	memcpy(stream->held_addresses, addresses,
	       block->code.reference_count * sizeof(*addresses));
	stream->held = block;
}

/* Each block is complete when the next one is known.  Returns 0, or -1 with errno. */
static int give(struct stream *stream, const uint64_t *records, size_t count)
{
	const struct translator *translator = stream->translator;
	const struct watcher *watcher = stream->watcher;
	const uint64_t *record = records, *end = records + count;

	while (record < end && !stream->enough) {
		const uint64_t number = *record ^ STREAM_TAG;
		const struct cached_block *block;

		if (number >= translator->count) {
			errno = EPROTO;
			return -1;
		}
		block = translator->blocks[number];
		if (block->records > end - record) {
			errno = EPROTO;
			return -1;
		}
		if (stream->held && !watcher->executed(watcher->context, &stream->held->code,
						       stream->held_addresses, block->code.address)) {
			stream->enough = true;
			stream->held = NULL;
			break;
		}
		read_block(block, stream->fs_base, record + 1, stream->held_addresses);
		stream->held = block;
		record += block->records;
	}
	return 0;
}

/* Read and give what is before `end`.  Returns 0, or -1 with errno. */
static int drain_to(struct stream *stream, uint64_t end)
{
	const uint64_t begin = stream_start(stream->translator);
	const size_t bytes = (size_t)(end - begin);

	if (end < begin || bytes > AREA_BUFFER_BYTES || bytes % sizeof(uint64_t)) {
		errno = EPROTO;
		return -1;
	}
	if (!bytes)
		return 0;
	if (copy_read(stream->copy, begin, stream->records, bytes) < 0)
		return -1;
	return give(stream, stream->records, bytes / sizeof(uint64_t));
}

int stream_drain(struct stream *stream)
{
	const uint64_t next = stream->translator->area + AREA_NEXT;
	const uint64_t begin = stream_start(stream->translator);
	uint64_t end;

	if (copy_read(stream->copy, next, &end, sizeof(end)) < 0 || drain_to(stream, end) < 0)
		return -1;
	return end == begin ? 0 : copy_write(stream->copy, next, &begin, sizeof(begin));
}

int stream_turn(struct stream *stream, uint64_t address, unsigned long long *first)
{
	const uint64_t next = stream->translator->area + AREA_NEXT;
	const uint64_t begin = stream_start(stream->translator);
	uint64_t part[STREAM_BLOCK_RECORDS], end;
	size_t bytes;

	if (copy_read(stream->copy, next, &end, sizeof(end)) < 0)
		return -1;
	bytes = (size_t)(address - end);
	if (address < end || bytes > sizeof(part)) {
		errno = EPROTO;
		return -1;
	}
	if ((bytes && copy_read(stream->copy, end, part, bytes) < 0) || drain_to(stream, end) < 0 ||
	    (bytes && copy_write(stream->copy, begin, part, bytes) < 0))
		return -1;
	*first = begin;
	return copy_write(stream->copy, next, &begin, sizeof(begin));
}
