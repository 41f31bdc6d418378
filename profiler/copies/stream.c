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

uint64_t stream_start(const struct stream *stream)
{
	return stream->translator->area + AREA_BUFFER;
}

/*
 * A repeated instruction: where each operand began, and where the last one ended.  Returns the index
 * past it.
 */
static unsigned read_string(const struct cached_block *block, unsigned begin,
			    const uint64_t *records, uint64_t *addresses)
{
	unsigned end = begin;
	int64_t length;

	while (end < block->code.reference_count &&
	       (block->slots[end].source == SLOT_STRING || block->slots[end].source == SLOT_LENGTH) &&
	       block->code.references[end].instruction == block->code.references[begin].instruction) {
		if (block->slots[end].source == SLOT_STRING)
			addresses[end] = records[block->slots[end].record];
		end++;
	}
	length = (int64_t)(records[block->slots[end - 1].record] - addresses[end - 2]);
	for (unsigned i = begin; i < end; i += 2) {
		/* The direction flag was set: it went down. */
		if (length < 0)
			addresses[i] += (uint64_t)length + block->code.references[i].bytes;
		addresses[i + 1] = (uint64_t)(length < 0 ? -length : length);
	}
	return end;
}

static void read_mixed(const struct cached_block *block, uint64_t fs_base, const uint64_t *records,
		       uint64_t *addresses)
{
	for (unsigned i = 0; i < block->code.reference_count;) {
		const struct slot slot = block->slots[i];

		switch ((enum slot_source)slot.source) {
		case SLOT_RECORD:
			addresses[i] = records[slot.record] + (uint64_t)slot.displacement;
			break;
		case SLOT_FS_RECORD:
			addresses[i] = records[slot.record] + (uint64_t)slot.displacement + fs_base;
			break;
		case SLOT_FIXED:
			addresses[i] = (uint64_t)slot.displacement;
			break;
		case SLOT_FS_FIXED:
			addresses[i] = (uint64_t)slot.displacement + fs_base;
			break;
		case SLOT_STRING:
		case SLOT_LENGTH:
			i = read_string(block, i, records, addresses);
			continue;
		}
		i++;
	}
}

static inline void read_block(const struct cached_block *block, uint64_t fs_base,
			      const uint64_t *records, uint64_t *addresses)
{
	if (!block->plain) {
		read_mixed(block, fs_base, records, addresses);
		return;
	}
	for (unsigned i = 0; i < block->code.reference_count; i++)
		addresses[i] = records[block->slots[i].record] +
			       (uint64_t)block->slots[i].displacement;
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

/* The parts before it are complete; it is when the next block is known. */
static void hold(struct stream *stream, const struct cached_block *block, const uint64_t *records)
{
	if (block->before) {
		hold(stream, block->before, records);
		stream_settle(stream, block->code.address);
		if (stream->enough)
			return;
	}
	read_block(block, stream->fs_base, records, stream->held_addresses);
	stream->held = block;
}

/* The block that begins there.  NULL with errno EPROTO: none does, or it is not complete. */
static const struct cached_block *block_at(const struct translator *translator,
					   const uint64_t *record, const uint64_t *end)
{
	const uint64_t number = *record ^ STREAM_TAG;
	const struct cached_block *block =
		number < translator->count ? translator->blocks[number] : NULL;

	if (block && block->records <= end - record)
		return block;
	errno = EPROTO;
	return NULL;
}

static const struct cached_block *first_part(const struct cached_block *block)
{
	while (block->before)
		block = block->before;
	return block;
}

/* Each block is complete when the next one is known.  Returns 0, or -1 with errno. */
static int give(struct stream *stream, const uint64_t *records, size_t count)
{
	const uint64_t *const end = records + count;

	while (records < end) {
		const struct cached_block *block = block_at(stream->translator, records, end);

		if (!block)
			return -1;
		stream_settle(stream, first_part(block)->code.address);
		if (stream->enough)
			break;
		hold(stream, block, records);
		records += block->records;
	}
	return 0;
}

/* Read what is before `end`.  Returns 0, or -1 with errno. */
static int read_to(struct stream *stream, uint64_t end)
{
	const uint64_t begin = stream_start(stream);
	const size_t bytes = (size_t)(end - begin);

	if (end < begin || bytes > AREA_BUFFER_BYTES || bytes % sizeof(uint64_t)) {
		errno = EPROTO;
		return -1;
	}
	if (bytes && copy_read(stream->copy, begin, stream->records, bytes) < 0)
		return -1;
	return give(stream, stream->records, bytes / sizeof(uint64_t));
}

int stream_drain(struct stream *stream)
{
	const uint64_t next = stream->translator->area + AREA_NEXT;
	const uint64_t begin = stream_start(stream);
	uint64_t end;

	if (copy_read(stream->copy, next, &end, sizeof(end)) < 0 || read_to(stream, end) < 0)
		return -1;
	return end == begin ? 0 : copy_write(stream->copy, next, &begin, sizeof(begin));
}

int stream_turn(struct stream *stream, uint64_t address, unsigned long long *first)
{
	const uint64_t next = stream->translator->area + AREA_NEXT;
	uint64_t part[STREAM_BLOCK_RECORDS], begin, end;
	size_t bytes;

	if (copy_read(stream->copy, next, &end, sizeof(end)) < 0)
		return -1;
	bytes = (size_t)(address - end);
	if (address < end || bytes > sizeof(part)) {
		errno = EPROTO;
		return -1;
	}
	if ((bytes && copy_read(stream->copy, end, part, bytes) < 0) || read_to(stream, end) < 0)
		return -1;
	begin = stream_start(stream);
	if (bytes && copy_write(stream->copy, begin, part, bytes) < 0)
		return -1;
	*first = begin;
	return copy_write(stream->copy, next, &begin, sizeof(begin));
}
