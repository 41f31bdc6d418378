/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "pace.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "arm.h"
#include "copy_mappings.h"
#include "instruction.h"
#include "page_runs.h"
#include "step.h"

/* An arm's caches and TLBs are empty: so long it fills them, so long it is timed. */
#define WARM_NS UINT64_C(500000)
#define TIMED_NS UINT64_C(1000000)
/* So long the pilot runs first, and longer if it has not written all pages that an arm writes. */
#define PILOT_NS UINT64_C(3000000)
#define PILOT_MOST_NS UINT64_C(48000000)
/* What a place must have to be told from others, and the instructions it may take. */
#define LEAST_REFERENCES 6u
#define MOST_STEPS 200u
/* Of larger memory, to find the pages that were written takes too long. */
#define MOST_BYTES (UINT64_C(4) << 30)
/* A page fault takes a microsecond or two: with more of them it is not the program that is timed. */
#define LEAST_NS_PER_FAULT 20000u

#define PAGE UINT64_C(4096)
/* Of /proc/PID/pagemap: the page belongs to this process alone. */
#define EXCLUSIVE (UINT64_C(1) << 56)
#define ENTRIES 4096u
#define BATCH 512u

/* Read a byte of each page and write it again: the kernel gives the arm a page of its own. */
static void own_pages(pid_t pid, const uint64_t *pages, size_t count)
{
	struct iovec theirs[BATCH], ours;
	uint8_t bytes[BATCH];
	ssize_t got;

	for (size_t i = 0; i < count; i++)
		theirs[i] = (struct iovec){ (void *)(uintptr_t)pages[i], 1 };
	ours = (struct iovec){ bytes, count };
	got = process_vm_readv(pid, &ours, 1, theirs, count, 0);
	if (got <= 0)
		return;
	ours.iov_len = (size_t)got;
	process_vm_writev(pid, &ours, 1, theirs, (size_t)got, 0);
}

static void own_run(pid_t pid, int pagemap, const struct page_run *run)
{
	static uint64_t entries[ENTRIES];
	uint64_t pages[BATCH];
	size_t count = 0;

	for (uint64_t at = run->start; at < run->end;) {
		const uint64_t left = (run->end - at) / PAGE;
		const size_t want = left < ENTRIES ? (size_t)left : ENTRIES;
		const ssize_t got = pread(pagemap, entries, want * sizeof(entries[0]),
					  (off_t)(at / PAGE * sizeof(entries[0])));

		if (got <= 0)
			break;
		for (size_t i = 0; i < (size_t)got / sizeof(entries[0]); i++, at += PAGE) {
			if (entries[i] & EXCLUSIVE)
				pages[count++] = at;
			if (count == BATCH) {
				own_pages(pid, pages, count);
				count = 0;
			}
		}
	}
	own_pages(pid, pages, count);
}

/* The pages that the pilot has written are the arm's own from now on, too. */
static int own_what_was_written(const struct arm *arm, const struct arm *pilot)
{
	struct page_runs runs;
	char path[64];
	int pagemap, rc;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pilot->copy.pid);
	pagemap = open(path, O_RDONLY | O_CLOEXEC);
	if (pagemap < 0)
		return -1;
	rc = page_runs_read(&runs, pilot->copy.pid);
	if (rc == 0 && runs.bytes > MOST_BYTES)
		rc = -1;
	for (size_t i = 0; rc == 0 && i < runs.count; i++)
		own_run(arm->copy.pid, pagemap, &runs.all[i]);
	page_runs_free(&runs);
	close(pagemap);
	return rc;
}

/* What it writes there would be seen by others. */
static bool shares_memory(pid_t pid)
{
	struct copy_mappings mappings;
	bool shares = false;

	if (copy_mappings_read(&mappings, pid) < 0)
		return true;
	for (size_t i = 0; i < mappings.count; i++)
		shares = shares || (mappings.all[i].shared && mappings.all[i].writable);
	copy_mappings_free(&mappings);
	return shares;
}

static bool decode_at(const struct arm *arm, struct instruction *instruction)
{
	uint8_t code[16];
	size_t bytes = sizeof(code);

	/* It may be the last of its mapping. */
	while (bytes && copy_read(&arm->copy, arm->registers.rip, code, bytes) < 0)
		bytes--;
	return bytes && instruction_decode(instruction, code, bytes, arm->registers.rip);
}

/* Step it past its next references.  Returns 0, or -1 if there are too few. */
static int note_place(struct place *place, struct arm *arm)
{
	for (unsigned i = 0; i < MOST_STEPS && place->count < PLACE_REFERENCES; i++) {
		uint64_t addresses[STEP_MOST_REFERENCES] = { 0 };
		const uint64_t at = arm->registers.rip;
		struct instruction instruction;

		if (!decode_at(arm, &instruction) || instruction.repeats ||
		    instruction.flow == FLOW_SYSTEM_CALL || instruction.flow == FLOW_STEP ||
		    instruction.flow == FLOW_REFUSE)
			break;
		if (step(&arm->copy, &instruction, &arm->registers, addresses) != 0)
			return -1;
		for (unsigned j = 0; j < instruction.operand_count; j++) {
			if (place->count == PLACE_REFERENCES)
				break;
			place->all[place->count].instruction = at;
			place->all[place->count++].address = addresses[j];
		}
	}
	return place->count < LEAST_REFERENCES ? -1 : 0;
}

/* Run it for this CPU time.  Returns 0, or -1 if it does not come so far. */
static int run_for(struct arm *arm, uint64_t ns, struct arm_stretch *stretch)
{
	struct check_point nowhere = { .count = 0 };

	return arm_run(arm, &nowhere, ns, stretch) == ARM_LATE ? 0 : -1;
}

/* One attempt.  Returns 0 if its time is the program's, not that of page faults. */
static int time_arm(struct pace *pace, struct arm *arm)
{
	struct arm_stretch stretch;

	pace->before.count = pace->after.count = 0;
	if (run_for(arm, WARM_NS, &stretch) < 0 || note_place(&pace->before, arm) < 0 ||
	    run_for(arm, TIMED_NS, &stretch) < 0 || note_place(&pace->after, arm) < 0 ||
	    stretch.cpu_ns < stretch.faults * LEAST_NS_PER_FAULT)
		return -1;
	pace->cpu_ns = stretch.cpu_ns;
	return 0;
}

static void run(struct pace *pace, struct arm *arm, struct arm *pilot, struct copy *copy)
{
	struct arm_stretch stretch;
	bool continues = arm_fork(pilot, copy) == 0;

	for (uint64_t ns = PILOT_NS; continues && ns <= PILOT_MOST_NS; ns *= 4) {
		continues = run_for(pilot, ns, &stretch) == 0;
		if (arm_fork(arm, copy) < 0 || own_what_was_written(arm, pilot) < 0 ||
		    time_arm(pace, arm) == 0)
			return;
		arm_kill(arm, copy);
		arm->copy.pid = 0;
	}
}

void pace_run(struct pace *pace, struct copy *copy)
{
	struct arm arm = { .copy.pid = 0 }, pilot = { .copy.pid = 0 };
	sigset_t child, before;

	*pace = (struct pace){ .cpu_ns = 0 };
	if (shares_memory(copy->pid))
		return;
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, &before);
	run(pace, &arm, &pilot, copy);
	arm_kill(&arm, copy);
	arm_kill(&pilot, copy);
	sigprocmask(SIG_SETMASK, &before, NULL);
}

/* Whether the block's references bring the copy to the place. */
static bool comes_to(struct place *place, const struct code_block *block, const uint64_t *addresses)
{
	bool found = false;

	/* In a block that it was stopped in, the place begins somewhere inside. */
	if (!place->matched && (place->all[0].instruction < block->address ||
				place->all[0].instruction >= block->past))
		return false;
	for (unsigned i = 0; i < block->reference_count; i++) {
		const uint64_t instruction =
			block->instructions[block->references[i].instruction].address;

		for (unsigned again = 0; again < 2; again++) {
			if (place->all[place->matched].instruction == instruction &&
			    place->all[place->matched].address == addresses[i]) {
				place->matched++;
				break;
			}
			if (!place->matched)
				break;
			place->matched = 0;
		}
		if (place->matched == place->count) {
			place->matched = 0;
			found = true;
		}
	}
	return found;
}

static void look_for(struct pace *pace, struct place *place, const struct code_block *block,
		     const uint64_t *addresses)
{
	if (!comes_to(place, block, addresses))
		return;
	pace->lost = pace->lost || place->found;
	place->found = true;
	place->instructions = pace->instructions;
}

void pace_executed(struct pace *pace, const struct code_block *block, const uint64_t *addresses)
{
	if (!pace->cpu_ns)
		return;
	pace->instructions += block->instruction_count;
	look_for(pace, &pace->before, block, addresses);
	look_for(pace, &pace->after, block, addresses);
}

uint64_t pace_instructions(const struct pace *pace)
{
	if (!pace->cpu_ns || pace->lost || !pace->before.found || !pace->after.found ||
	    pace->after.instructions <= pace->before.instructions)
		return 0;
	return pace->after.instructions - pace->before.instructions;
}
