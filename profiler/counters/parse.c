/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "parse.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <string.h>

/* Newer than the headers of some systems that this is built on. */
#define MISC_MMAP_BUILD_ID (1u << 14)
#define LEVEL_CXL 9u

/* The last fields of each record except samples: pid and tid, time, cpu, id. */
enum { TRAILER_BYTES = 32 };

/* The rest of a record. */
struct span {
	const unsigned char *next;
	size_t left;
	int short_of;	/* something beyond the end was read */
};

static void take(struct span *span, void *to, size_t size)
{
	if (span->left < size) {
		span->short_of = 1;
		memset(to, 0, size);
		return;
	}
	memcpy(to, span->next, size);
	span->next += size;
	span->left -= size;
}

static uint64_t take_u64(struct span *span)
{
	uint64_t value;

	take(span, &value, sizeof(value));
	return value;
}

static uint32_t take_u32(struct span *span)
{
	uint32_t value;

	take(span, &value, sizeof(value));
	return value;
}

size_t record_size(const void *bytes, size_t available)
{
	struct perf_event_header header;

	if (available < sizeof(header))
		return 0;
	memcpy(&header, bytes, sizeof(header));
	/* The kernel pads records to eight bytes. */
	if (header.size < sizeof(header) || header.size % 8 || header.size > available)
		return 0;
	return header.size;
}

static enum record_mode mode_of(uint16_t misc)
{
	switch (misc & PERF_RECORD_MISC_CPUMODE_MASK) {
	case PERF_RECORD_MISC_KERNEL:
		return MODE_KERNEL;
	case PERF_RECORD_MISC_USER:
		return MODE_USER;
	case PERF_RECORD_MISC_HYPERVISOR:
		return MODE_HYPERVISOR;
	case PERF_RECORD_MISC_GUEST_KERNEL:
	case PERF_RECORD_MISC_GUEST_USER:
		return MODE_GUEST;
	default:
		return MODE_UNKNOWN;
	}
}

static void parse_sample(struct span *span, int addresses, struct record *record)
{
	struct sample_record *sample = &record->sample;

	record->kind = RECORD_SAMPLE;
	record->id = take_u64(span);
	sample->ip = take_u64(span);
	record->pid = take_u32(span);
	record->tid = take_u32(span);
	record->time_ns = take_u64(span);
	if (addresses)
		sample->address = take_u64(span);
	record->cpu = take_u32(span);
	take_u32(span);
	/*
	 * Events with and without a fixed period share a buffer: the length shows whether the
	 * sample has the period.
	 */
	if (span->left >= (addresses ? 16 : 8))
		sample->period = take_u64(span);
	if (addresses)
		sample->data_source = take_u64(span);
}

static void parse_mapping(struct span *span, uint16_t misc, struct record *record)
{
	struct mapping_record *mapping = &record->mapping;
	unsigned char identity[24];	/* device and inode, or the build id */

	record->kind = RECORD_MAPPING;
	record->pid = take_u32(span);
	record->tid = take_u32(span);
	mapping->start = take_u64(span);
	mapping->length = take_u64(span);
	mapping->offset = take_u64(span);
	take(span, identity, sizeof(identity));
	take_u64(span);		/* protection and flags */
	if ((misc & MISC_MMAP_BUILD_ID) && identity[0] <= sizeof(mapping->build_id)) {
		mapping->build_id_size = identity[0];
		memcpy(mapping->build_id, identity + 4, identity[0]);
	}
	mapping->name = (const char *)span->next;
	mapping->name_length = strnlen(mapping->name, span->left);
}

static void parse_process(struct span *span, enum record_kind kind,
			  struct record *record)
{
	record->kind = kind;
	record->pid = take_u32(span);
	record->parent_pid = take_u32(span);
	record->tid = take_u32(span);
	take_u32(span);		/* the parent's tid */
}

static void parse_body(struct span *span, const struct perf_event_header *header,
		       struct record *record)
{
	switch (header->type) {
	case PERF_RECORD_MMAP2:
		parse_mapping(span, header->misc, record);
		break;
	case PERF_RECORD_FORK:
		parse_process(span, RECORD_FORK, record);
		break;
	case PERF_RECORD_EXIT:
		parse_process(span, RECORD_EXIT, record);
		break;
	case PERF_RECORD_COMM:
		if (header->misc & PERF_RECORD_MISC_COMM_EXEC)
			record->kind = RECORD_EXEC;
		record->pid = take_u32(span);
		record->tid = take_u32(span);
		break;
	case PERF_RECORD_LOST:
		record->kind = RECORD_LOST;
		take_u64(span);	/* the event of the first record that fitted again */
		record->lost = take_u64(span);
		break;
	case PERF_RECORD_THROTTLE:
		record->kind = RECORD_THROTTLED;
		break;
	default:
		break;
	}
}

static void parse_trailer(const unsigned char *end, struct record *record)
{
	struct span span = { .next = end - TRAILER_BYTES, .left = TRAILER_BYTES };

	take_u64(&span);	/* pid and tid that caused it */
	record->time_ns = take_u64(&span);
	take_u64(&span);	/* CPU */
	record->id = take_u64(&span);
}

int record_parse(const void *bytes, size_t size, int addresses,
		 struct record *record)
{
	struct perf_event_header header;
	struct span span = { .next = bytes, .left = size };

	memset(record, 0, sizeof(*record));
	record->kind = RECORD_OTHER;
	take(&span, &header, sizeof(header));
	if (header.type == PERF_RECORD_SAMPLE && !span.short_of) {
		record->sample.mode = mode_of(header.misc);
		parse_sample(&span, addresses, record);
	} else if (span.left < TRAILER_BYTES) {
		span.short_of = 1;
	} else {
		parse_trailer(span.next + span.left, record);
		span.left -= TRAILER_BYTES;
		parse_body(&span, &header, record);
	}
	if (span.short_of) {
		errno = EINVAL;
		return -1;
	}
	return 0;
}

const char *data_tlb_name(uint64_t data_source)
{
	uint64_t tlb = data_source >> PERF_MEM_TLB_SHIFT & 0x7f;
	uint64_t levels = tlb & (PERF_MEM_TLB_L1 | PERF_MEM_TLB_L2);

	if (tlb & PERF_MEM_TLB_NA)
		return NULL;
	/* Found by the walker, or missed in the second level: a walk either way. */
	if (tlb & (PERF_MEM_TLB_WK | PERF_MEM_TLB_OS))
		return "walk";
	if ((tlb & PERF_MEM_TLB_MISS) && (tlb & PERF_MEM_TLB_L2))
		return "walk";
	if (!(tlb & PERF_MEM_TLB_HIT) || !levels)
		return NULL;
	if (levels == PERF_MEM_TLB_L1)
		return "l1_hit";
	/* Intel's load latency event sets both levels if it does not know which. */
	return levels == PERF_MEM_TLB_L2 ? "stlb_hit" : "hit";
}

const char *memory_level_name(uint64_t data_source)
{
	const uint64_t level = data_source >> PERF_MEM_LVL_SHIFT & 0x3fff;
	const uint64_t number = data_source >> PERF_MEM_LVLNUM_SHIFT & 0xf;

	/* Kernels say it in the one field, in the other, or in both. */
	if (level & (PERF_MEM_LVL_LOC_RAM | PERF_MEM_LVL_REM_RAM1 | PERF_MEM_LVL_REM_RAM2))
		return "memory";
	if (number == LEVEL_CXL || number == PERF_MEM_LVLNUM_RAM || number == PERF_MEM_LVLNUM_PMEM)
		return "memory";
	/* Where it was found after the last level's miss, some CPUs do not report. */
	if (level & PERF_MEM_LVL_MISS)
		return level & PERF_MEM_LVL_L3 ? "memory" : NULL;
	if (level & (PERF_MEM_LVL_L1 | PERF_MEM_LVL_LFB | PERF_MEM_LVL_L2 | PERF_MEM_LVL_L3 |
		     PERF_MEM_LVL_REM_CCE1 | PERF_MEM_LVL_REM_CCE2))
		return "cache";
	if ((number >= PERF_MEM_LVLNUM_L1 && number <= PERF_MEM_LVLNUM_L4) ||
	    number == PERF_MEM_LVLNUM_ANY_CACHE || number == PERF_MEM_LVLNUM_LFB)
		return "cache";
	return NULL;
}
