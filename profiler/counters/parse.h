/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is in one record of the kernel's sampling buffer? */
#ifndef TLBCOST_COUNTERS_PARSE_H
#define TLBCOST_COUNTERS_PARSE_H

#include <stddef.h>
#include <stdint.h>

/*
 * What to request for the buffers: the fields of a sample, and the last ones of every other
 * record (sample_id_all).  An event with a period that the kernel chooses (attr.freq) asks for
 * PERF_SAMPLE_PERIOD as well, and with data addresses every event for PERF_SAMPLE_ADDR and
 * PERF_SAMPLE_DATA_SRC.
 */
#define PARSE_SAMPLE_TYPE (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | \
			   PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU)

enum record_kind {
	RECORD_SAMPLE,
	RECORD_MAPPING,		/* a part of the address space was mapped anew */
	RECORD_FORK,		/* a process, or a thread if pid is parent_pid */
	RECORD_EXEC,		/* the address space is new and empty */
	RECORD_EXIT,		/* of a thread; of the last one, if pid is tid */
	RECORD_LOST,		/* the buffer was full */
	RECORD_THROTTLED,	/* the kernel stopped sampling until its next tick */
	RECORD_OTHER,		/* not used */
};

enum record_mode {
	MODE_UNKNOWN,
	MODE_KERNEL,
	MODE_USER,
	MODE_HYPERVISOR,
	MODE_GUEST,
};

struct sample_record {
	uint64_t ip;
	uint64_t address;	/* of the data; 0 if not requested, or not known */
	uint64_t period;	/* 0: the event's own, which does not vary */
	uint64_t data_source;	/* a perf_mem_data_src; 0 if not requested */
	enum record_mode mode;
};

struct mapping_record {
	uint64_t start, length;
	uint64_t offset;	/* in the file, bytes */
	const char *name;	/* within the record */
	size_t name_length;
	unsigned char build_id[20];
	size_t build_id_size;	/* 0: not known */
};

struct record {
	enum record_kind kind;
	uint64_t time_ns;	/* of the requested clock; 0 if not known */
	uint64_t id;		/* of the event */
	uint32_t pid, tid, parent_pid;
	uint32_t cpu;		/* of a sample */
	uint64_t lost;		/* records */
	struct sample_record sample;
	struct mapping_record mapping;
};

/*
 * Bytes of the record that `bytes` start with, or 0 if `available` bytes do
 * not hold it or its header makes no sense.  Any alignment.
 */
size_t record_size(const void *bytes, size_t available);

/*
 * Read one record of exactly `size` bytes, as returned by record_size().
 * `addresses`: samples hold the address of their data.
 * Returns 0, or -1 with errno EINVAL if it is shorter than what it must hold.
 */
int record_parse(const void *bytes, size_t size, int addresses,
		 struct record *record);

/* "l1_hit", "stlb_hit", "hit" (one of the two), "walk"; NULL: not known. */
const char *data_tlb_name(uint64_t data_source);

/* "memory" (of any node), "cache"; NULL: not known. */
const char *memory_level_name(uint64_t data_source);

#endif
