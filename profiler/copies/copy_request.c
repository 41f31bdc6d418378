/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "copy_request.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "held_threads.h"
#include "injector.h"
#include "recorder.h"
#include "thread_copy.h"
#include "thread_facts.h"
#include "thread_stop.h"
#include "tracee.h"
#include "unforked_memory.h"

/* One program.  Cached, and looked up again when it is old. */
struct program_facts {
	pid_t process;
	enum injector_refusal refusal;	/* INJECTED: none */
	uint64_t huge_bytes;		/* transparent huge pages; UINT64_MAX: not known */
	bool has_unforked;		/* memory with MADV_DONTFORK was found before */
	uint64_t looked_ns, measured_ns;
};

#define REMEMBERED 32u
/* A program opens its rings and fault handlers when it starts. */
#define LOOK_NS 1000000000u
/* The kernel looks at all of its pages for this. */
#define MEASURE_NS 10000000000u

static struct program_facts remembered[REMEMBERED];
static unsigned next_remembered;

/*
 * Before Linux 5.12 whoever closes a ring may cancel requests of others; since then requests belong to
 * the thread that made them, and a copy has made none.
 */
static bool rings_are_shared(void)
{
	unsigned major = 0, minor = 0;
	struct utsname system;

	return uname(&system) < 0 || sscanf(system.release, "%u.%u", &major, &minor) != 2 ||
		major < 5 || (major == 5 && minor < 12);
}

/* A userfaultfd handler sees each fork. */
static enum injector_refusal look_at_files(pid_t process, pid_t thread)
{
	enum injector_refusal refusal = INJECTED;
	char path[64], target[64];
	struct dirent *entry;
	ssize_t length;
	DIR *files;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/fd", process, thread);
	files = opendir(path);
	if (!files)
		return errno == EACCES || errno == EPERM ? REFUSED_PERMISSION : REFUSED_GONE;
	while (refusal == INJECTED && (entry = readdir(files)) != NULL) {
		length = readlinkat(dirfd(files), entry->d_name, target, sizeof(target) - 1);
		if (length < 0)
			continue;
		target[length] = '\0';
		if (strcmp(target, "anon_inode:[io_uring]") == 0 && rings_are_shared())
			refusal = REFUSED_IO_URING;
		else if (strcmp(target, "anon_inode:[userfaultfd]") == 0)
			refusal = REFUSED_USERFAULTFD;
	}
	closedir(files);
	return refusal;
}

static uint64_t measure_huge(pid_t process, pid_t thread)
{
	uint64_t kilobytes, bytes = UINT64_MAX;
	char path[64], line[256];
	FILE *rollup;

	/* Facts of the process: its first thread may have ended. */
	(void)thread;
	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", process);
	rollup = fopen(path, "re");
	if (!rollup)
		return bytes;
	while (fgets(line, sizeof(line), rollup))
		if (sscanf(line, "AnonHugePages: %" SCNu64, &kilobytes) == 1)
			bytes = kilobytes << 10;
	fclose(rollup);
	return bytes;
}

static struct program_facts *slot_of(pid_t process)
{
	struct program_facts *facts;

	for (unsigned i = 0; i < REMEMBERED; i++)
		if (remembered[i].process == process)
			return &remembered[i];
	facts = &remembered[next_remembered];
	next_remembered = (next_remembered + 1) % REMEMBERED;
	memset(facts, 0, sizeof(*facts));
	facts->process = process;
	return facts;
}

static struct program_facts *program_facts_of(pid_t process, pid_t thread)
{
	struct program_facts *facts = slot_of(process);
	uint64_t now = clock_ns();

	if (!facts->looked_ns || now - facts->looked_ns > LOOK_NS) {
		facts->refusal = look_at_files(process, thread);
		/* The end of one thread says nothing about the program. */
		facts->looked_ns = facts->refusal == REFUSED_GONE ? 0 : now;
	}
	if (!facts->measured_ns || now - facts->measured_ns > MEASURE_NS) {
		facts->huge_bytes = measure_huge(process, thread);
		facts->measured_ns = now;
	}
	return facts;
}

/* Dead copies that are the program's children; it knows nothing of them. */
static void reap(struct thread_stop *stop, const struct injector_request *request,
		 struct injector_answer *answer)
{
	for (uint32_t i = 0; i < request->dead_count && i < 32; i++) {
		const uint64_t arguments[6] = { (uint64_t)request->dead[i], 0,
						(uint64_t)(WNOHANG | __WALL) };
		/* 0 and below would be any of its own children. */
		int64_t result = request->dead[i] <= 0 ? -ECHILD :
			thread_stop_call(stop, SYS_wait4, arguments, NULL);

		if (result == TRACEE_LOST)
			return;
		if (result != 0)
			answer->reaped |= UINT32_C(1) << i;
	}
}

/* The copies have stopped by themselves: give them up, or park them. */
static void settle(const struct injector_request *request, struct injector_answer *answer)
{
	uint32_t parked = 0;

	for (uint32_t i = 0; i < answer->copies; i++) {
		if (thread_copy_park(&answer->copy[i], request) < 0)
			continue;
		answer->copy[parked++] = answer->copy[i];
	}
	if (parked < answer->copies && answer->refusal == INJECTED)
		answer->refusal = REFUSED_FAILED;
	answer->copies = parked;
}

/* Memory that only the next copy can have. */
static bool is_missing(const struct injector_request *request, struct program_facts *facts,
		       pid_t copy)
{
	struct unforked_memory memory;

	if (facts->has_unforked || !unforked_memory_lacks(request->program, request->thread, copy))
		return false;
	if (unforked_memory_read(request->program, request->thread, &memory) == 0)
		facts->has_unforked = memory.count > 0;
	unforked_memory_free(&memory);
	return facts->has_unforked;
}

/* The calls that the thread makes now.  Returns the recording, or -1. */
static int record(struct thread_stop *stop, const struct injector_request *request,
		  struct injector_answer *answer)
{
	struct recorder recorder = {
		.thread = stop->thread, .most_calls = request->record_calls,
		.most_ms = request->record_ms, .behind_ns = request->behind_ns,
		.file = memfd_create("tlbcost-recording", MFD_CLOEXEC),
	};
	enum recorder_end end;
	int signal = 0;

	/* It was resumed. */
	end = recorder_run(&recorder, &signal);
	if (end == RECORDER_STOPPED)
		thread_stop_detach(stop, signal);
	else
		thread_stop_detach_later(stop);
	answer->recorded = recorder.calls;
	answer->behind = recorder.behind;
	if (recorder.calls)
		return recorder.file;
	if (recorder.file >= 0)
		close(recorder.file);
	return -1;
}

/* During the stop: everything that the thread does for us. */
static void have_calls_made(struct thread_stop *stop, const struct injector_request *request,
			    bool is_init, const struct unforked_memory *unforked,
			    struct injector_answer *answer)
{
	if (thread_stop_prepare(stop) < 0) {
		answer->refusal = REFUSED_FAILED;
		answer->error = errno;
		return;
	}
	reap(stop, request, answer);
	if (request->task == INJECT_COPY)
		answer->refusal = thread_copy_make(stop, request, is_init, unforked, answer);
}

static int work(const struct injector_request *request, struct program_facts *facts,
		bool is_init, struct injector_answer *answer)
{
	struct unforked_memory unforked = { .ranges = NULL };
	struct thread_stop stop;
	bool recorded = false;
	int recording = -1;

	answer->refusal = thread_stop_begin(&stop, request->program, request->thread,
					    request->sleeping, request->wait_ms, &answer->error);
	if (answer->refusal == INJECTED) {
		/*
		 * Now: the thread could map other memory there, to which the advice would then be
		 * given.
		 */
		if (facts->has_unforked && request->task == INJECT_COPY)
			unforked_memory_read(request->program, request->thread, &unforked);
		if (request->hold)
			held_threads_stop(request->program, request->thread);
		have_calls_made(&stop, request, is_init, &unforked, answer);
		if (thread_stop_restore(&stop) < 0)
			answer->refusal = REFUSED_GONE;
		recorded = request->record_calls && answer->copies && !request->hold &&
			ptrace(PTRACE_SYSCALL, stop.thread, NULL, NULL) == 0;
		if (request->hold && answer->copies)
			held_threads_add(&stop);
		else if (!recorded)
			thread_stop_detach(&stop, 0);
		if (!answer->copies)
			held_threads_release();
		answer->pause_ns = clock_ns() - stop.since_ns;
	}
	answer->restarted = stop.restarted;
	answer->rewound = stop.rewound;
	answer->rseq_aborted = stop.rseq_aborted;
	unforked_memory_free(&unforked);
	settle(request, answer);
	if (recorded)
		recording = record(&stop, request, answer);
	return recording;
}

void copy_request_serve(const struct injector_request *request, struct injector_answer *answer,
			int *recording)
{
	struct program_facts *facts;
	struct thread_facts thread = { .is_init = false };

	*recording = -1;
	memset(answer, 0, sizeof(*answer));
	/* Threads that wait for a copy have waited long enough. */
	held_threads_release();
	if (request->task == INJECT_RELEASE)
		return;
	facts = program_facts_of(request->program, request->thread);
	answer->huge_bytes = facts->huge_bytes;
	if (thread_facts_read(request->program, request->thread, &thread) == 0)
		answer->resident_bytes = thread.resident_bytes;
	if (request->copies > INJECTOR_MOST_COPIES)
		answer->refusal = REFUSED_FAILED;
	else if (request->task == INJECT_COPY)
		answer->refusal = facts->refusal != INJECTED || !thread.hugetlb_bytes ?
			facts->refusal : REFUSED_HUGETLB;
	if (answer->refusal != INJECTED)
		return;
	*recording = work(request, facts, thread.is_init, answer);
	if (answer->copies)
		answer->missing = is_missing(request, facts, answer->copy[0].pid);
}
