/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "replay.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "recorder.h"

int recording_open(struct recording *recording, int file)
{
	struct stat status;
	void *records;

	*recording = (struct recording){ .records = NULL };
	if (file < 0)
		return 0;
	if (fstat(file, &status) < 0)
		return -1;
	if (!status.st_size)
		return 0;
	records = mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_PRIVATE, file, 0);
	if (records == MAP_FAILED)
		return -1;
	recording->records = records;
	recording->bytes = (size_t)status.st_size;
	return 0;
}

void recording_close(struct recording *recording)
{
	if (recording->records)
		munmap(recording->records, recording->bytes);
	*recording = (struct recording){ .records = NULL };
}

/* The next record, if all of it is there; NULL: there is none. */
static const struct recorded_call *next_of(const struct recording *recording)
{
	const size_t left = recording->bytes - recording->next;
	const struct recorded_call *call;

	if (!recording->records || left < sizeof(*call))
		return NULL;
	call = (const struct recorded_call *)(const void *)(recording->records + recording->next);
	return call->record_bytes >= sizeof(*call) && call->record_bytes <= left ? call : NULL;
}

uint64_t recording_calls(const struct recording *recording)
{
	struct recording rest = *recording;
	const struct recorded_call *call;
	uint64_t calls = 0;

	while ((call = next_of(&rest)) != NULL) {
		rest.next += call->record_bytes;
		calls++;
	}
	return calls;
}

static bool changes_mappings(int64_t call)
{
	return call == SYS_mmap || call == SYS_munmap || call == SYS_mremap ||
	       call == SYS_mprotect || call == SYS_madvise;
}

size_t recording_private_bytes(const struct recording *recording,
			       const struct shared_memory *shared)
{
	struct recording rest = *recording;
	const struct recorded_call *call;

	while ((call = next_of(&rest)) != NULL) {
		if (changes_mappings(call->call) && call->result >= 0 &&
		    shared_memory_overlaps(shared, call->call == SYS_mmap ?
					   (uint64_t)call->result : call->arguments[0],
					   call->arguments[1]))
			break;
		rest.next += call->record_bytes;
	}
	return rest.next;
}

/*
 * A call that changes what is mapped, made at the addresses that the program got.  Returns
 * REPLAY_REAL; REPLAY_NOTHING if it would change more than private memory.
 */
static int replay_mapping(const struct recorded_call *call, struct user_regs_struct *r,
			  const struct call_limits *limits)
{
	const uint64_t place = (uint64_t)call->result;

	if (call->call == SYS_mmap) {
		r->rdi = place;
		r->r10 |= MAP_FIXED;
	} else if (call->call == SYS_mremap && place != r->rdi) {
		r->r10 |= MREMAP_FIXED | MREMAP_MAYMOVE;
		r->r8 = place;
	}
	return calls_change_is_private(r, limits) ? REPLAY_REAL : REPLAY_NOTHING;
}

/* Returns 0; or -1 with errno, EPROTO if the record is not whole. */
static int write_outputs(const struct recorded_call *call, struct copy *copy,
			 const struct user_regs_struct *r, struct shared_memory *shared)
{
	const struct recorded_output *outputs = (const struct recorded_output *)(call + 1);
	const uint8_t *bytes = (const uint8_t *)(outputs + call->output_count);
	const uint8_t *end = (const uint8_t *)call + call->record_bytes;

	if (call->output_count > RECORDED_MOST_OUTPUTS || bytes > end) {
		errno = EPROTO;
		return -1;
	}
	for (uint32_t i = 0; i < call->output_count; i++) {
		if (outputs[i].bytes > (uint64_t)(end - bytes)) {
			errno = EPROTO;
			return -1;
		}
		if (shared_memory_fill(shared, copy, r, outputs[i].address, outputs[i].bytes) < 0 ||
		    copy_write(copy, outputs[i].address, bytes, outputs[i].bytes) < 0)
			return -1;
		bytes += (outputs[i].bytes + 7) & ~UINT64_C(7);
	}
	return 0;
}

int replay(struct recording *recording, struct copy *copy, struct user_regs_struct *r,
	   const struct call_limits *limits, int64_t *result)
{
	const struct recorded_call *call = next_of(recording);
	const struct user_regs_struct before = *r;
	int rc = REPLAY_ANSWERED;

	/* A copy that took another path has other arguments. */
	if (!call || call->call != (int64_t)r->rax || call->arguments[0] != r->rdi ||
	    call->arguments[1] != r->rsi)
		return REPLAY_NOTHING;
	*result = call->result;
	if (call->call == SYS_brk)
		rc = REPLAY_REAL;
	else if (changes_mappings(call->call) && call->result >= 0)
		rc = replay_mapping(call, r, limits);
	else if (write_outputs(call, copy, r, limits->shared) < 0)
		return -1;
	if (rc == REPLAY_NOTHING) {
		*r = before;
		return rc;
	}
	if (rc == REPLAY_ANSWERED)
		r->rax = (unsigned long long)call->result;
	recording->next += call->record_bytes;
	recording->at_ns = call->at_ns;
	return rc;
}
