/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does a copy get from its calls what was recorded? */
#include "check.h"

#include <errno.h>
#include <sys/syscall.h>

#include "recorder.h"
#include "replay.h"
#include "traced.h"

#define AREA UINT64_C(0x700000000000)
#define AREA_SIZE UINT64_C(0x10000)
#define MEMORY (WORLD_LOW + ARENA)

struct record {
	struct recorded_call call;
	struct recorded_output output;
	uint8_t bytes[8];
};

/* The next call of a copy, whose first two arguments are these. */
static int replay_call(struct recording *recording, struct copy *copy, long call,
		       uint64_t first, uint64_t second, struct user_regs_struct *registers,
		       int64_t *result)
{
	struct shared_memory nothing = { NULL, 0 };
	const struct call_limits limits = { AREA, AREA_SIZE, &nothing };

	*registers = (struct user_regs_struct){ .rax = (unsigned long)call, .rdi = first,
						.rsi = second, .r10 = MAP_PRIVATE | MAP_ANONYMOUS };
	return replay(recording, copy, registers, &limits, result);
}

static int open_records(struct recording *recording, const void *records, size_t bytes)
{
	const int file = memfd_create("records", 0);
	int rc = file < 0 || write(file, records, bytes) != (ssize_t)bytes ? -1 : 0;

	if (rc == 0)
		rc = recording_open(recording, file);
	close(file);
	return rc;
}

static struct record read_record(void)
{
	return (struct record){
		.call = { .call = SYS_read, .arguments = { 3, MEMORY, 5 }, .result = 5, .at_ns = 99,
			  .output_count = 1, .record_bytes = sizeof(struct record) },
		.output = { MEMORY, 5 }, .bytes = "hello",
	};
}

TEST(calls_are_answered_in_their_order)
{
	const struct user_regs_struct start = traced_registers(WORLD_LOW);
	const struct record records[] = { read_record(), read_record() };
	struct user_regs_struct registers;
	struct recording recording;
	char bytes[6] = "";
	struct copy copy;
	int64_t result;

	if (traced_map(WORLD_LOW) < 0)
		CHECK_SKIP("its addresses are in use");
	CHECK_EQUAL(traced_start(&copy, WORLD_LOW, &start), 0);
	CHECK_EQUAL(open_records(&recording, records, sizeof(records)), 0);
	CHECK_EQUAL(replay_call(&recording, &copy, SYS_write, 3, MEMORY, &registers, &result),
		    REPLAY_NOTHING);
	CHECK_EQUAL(replay_call(&recording, &copy, SYS_read, 4, MEMORY, &registers, &result),
		    REPLAY_NOTHING);
	CHECK_EQUAL(recording.next, 0);
	CHECK_EQUAL(replay_call(&recording, &copy, SYS_read, 3, MEMORY, &registers, &result),
		    REPLAY_ANSWERED);
	CHECK_EQUAL(registers.rax, 5);
	CHECK_EQUAL(recording.at_ns, 99);
	CHECK_EQUAL(copy_read(&copy, MEMORY, bytes, 5), 0);
	CHECK(strcmp(bytes, "hello") == 0);
	CHECK_EQUAL(replay_call(&recording, &copy, SYS_read, 3, MEMORY, &registers, &result),
		    REPLAY_ANSWERED);
	CHECK_EQUAL(replay_call(&recording, &copy, SYS_read, 3, MEMORY, &registers, &result),
		    REPLAY_NOTHING);
	recording_close(&recording);
	copy_kill(&copy);
}

/* Memory that the program got is asked for at the same place; but not where ours is. */
TEST(mappings_are_made_where_they_were)
{
	struct recorded_call call = { .call = SYS_mmap, .arguments = { 0, 4096 }, .result = 0x5000000,
				      .record_bytes = sizeof(call) };
	struct copy copy = { .pid = 0 };
	struct user_regs_struct registers;
	struct recording recording;
	int64_t result;

	CHECK_EQUAL(open_records(&recording, &call, sizeof(call)), 0);
	CHECK_EQUAL(replay_call(&recording, &copy, SYS_mmap, 0, 4096, &registers, &result), REPLAY_REAL);
	CHECK_EQUAL(registers.rdi, 0x5000000);
	CHECK(registers.r10 & MAP_FIXED);
	CHECK_EQUAL(result, 0x5000000);
	recording_close(&recording);
	call.result = (int64_t)AREA;
	CHECK_EQUAL(open_records(&recording, &call, sizeof(call)), 0);
	CHECK_EQUAL(replay_call(&recording, &copy, SYS_mmap, 0, 4096, &registers, &result),
		    REPLAY_NOTHING);
	recording_close(&recording);
}

TEST(recordings_that_are_not_whole)
{
	struct record record = read_record();
	struct copy copy = { .pid = 0 };
	struct user_regs_struct registers;
	struct recording recording;
	int64_t result;

	CHECK_EQUAL(recording_open(&recording, -1), 0);
	CHECK_EQUAL(replay_call(&recording, &copy, SYS_read, 3, MEMORY, &registers, &result),
		    REPLAY_NOTHING);
	/* Cut off. */
	CHECK_EQUAL(open_records(&recording, &record, sizeof(record) - 8), 0);
	CHECK_EQUAL(replay_call(&recording, &copy, SYS_read, 3, MEMORY, &registers, &result),
		    REPLAY_NOTHING);
	recording_close(&recording);
	/* More bytes than there are. */
	record.output.bytes = 4096;
	CHECK_EQUAL(open_records(&recording, &record, sizeof(record)), 0);
	CHECK_EQUAL(replay_call(&recording, &copy, SYS_read, 3, MEMORY, &registers, &result), -1);
	CHECK_EQUAL(errno, EPROTO);
	recording_close(&recording);
}

CHECK_MAIN
