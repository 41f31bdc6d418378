/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Does translated code make the references of the program?  Two copies of one stop: one is
 * single-stepped, the other followed; addresses, sizes and kinds must be the same, one by one.
 *
 *   compare INJECTOR COPIES INSTRUCTIONS -- PROGRAM...
 *
 * Prints a line for each pair, and exits 1 if one differs, 2 if none could be compared.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "area.h"
#include "code_cache.h"
#include "follow.h"
#include "generated_run.h"
#include "injected.h"
#include "copy_mappings.h"
#include "shared_memory.h"
#include "tracee.h"
#include "translator.h"

struct limited {
	struct list list;
	size_t most;
};

static bool executed(void *context, const struct code_block *block, const uint64_t *addresses,
		     uint64_t next)
{
	struct limited *limited = context;

	list_executed(&limited->list, block, addresses, next);
	return limited->list.count < limited->most;
}

/* What it gives is not the same for two copies: the time. */
static bool tells_time(const struct instruction *instruction, const struct copy_mappings *mappings,
		       uint64_t address)
{
	const struct copy_mapping *mapping = copy_mappings_find(mappings, address);

	return (mapping && strcmp(mapping->name, "[vdso]") == 0) ||
	       instruction->zydis.mnemonic == ZYDIS_MNEMONIC_RDTSC ||
	       instruction->zydis.mnemonic == ZYDIS_MNEMONIC_RDTSCP;
}

/* Step up to the first system call, to where the time is asked for, or this many instructions. */
static unsigned long step_copy(struct copy *copy, unsigned long most, struct list *list)
{
	struct user_regs_struct registers = copy->start;
	struct copy_mappings mappings;
	unsigned long steps = 0;

	if (copy_mappings_read(&mappings, copy->pid) < 0)
		return 0;
	for (; steps < most; steps++) {
		struct code_reference references[STEP_MOST_REFERENCES];
		uint64_t addresses[STEP_MOST_REFERENCES] = { 0 };
		struct instruction instruction;
		uint8_t code[16];
		size_t have = 16;
		uint64_t address = registers.rip;

		while (have && copy_read(copy, address, code, have) < 0)
			have--;
		if (!instruction_decode(&instruction, code, have, address) ||
		    instruction.flow == FLOW_SYSTEM_CALL || instruction.flow == FLOW_REFUSE ||
		    tells_time(&instruction, &mappings, address))
			break;
		if (step(copy, &instruction, &registers, addresses) != 0)
			break;
		list_add_all(list, address, references, step_references(&instruction, references), addresses);
	}
	copy_mappings_free(&mappings);
	return steps;
}

/* Returns 1 if they differ. */
static int compare(const struct list *stepped, const struct list *followed)
{
	const size_t i = list_common(stepped, followed);

	if (i == stepped->count)
		return 0;
	list_show_both(stepped, followed, i);
	return 1;
}

/* The other copy must see the same memory: ours is there as well, and nothing is shared. */
static int make_alike(struct copy *copy, const struct translator *translator)
{
	struct shared_memory shared;
	uint64_t area[6] = { translator->area, AREA_BYTES, PROT_NONE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, UINT64_MAX, 0 };
	int rc;

	rc = shared_memory_isolate(&shared, copy, &copy->start, true);
	if (rc == 0)
		rc = shared_memory_fill(&shared, copy, &copy->start, 0, UINT64_MAX);
	shared_memory_free(&shared);
	if (translator->area)
		copy_call(copy, &copy->start, SYS_mmap, area);
	return rc < 0 ? -1 : 0;
}

static int compare_copies(struct copy copies[2], struct translator *translator, unsigned long most)
{
	static const char *const ends[] = { "enough", "call", "fault", "instruction", "exited",
					    "failed", "time" };
	struct list stepped = { .count = 0 };
	struct limited limited = { .most = 0 };
	const struct watcher watcher = { .executed = executed, .context = &limited };
	const struct follow_limits limits = { .time_ns = UINT64_C(60000000000) };
	struct followed followed;
	unsigned long steps;
	int rc;

	if (copy_take(&copies[0]) < 0 || copy_take(&copies[1]) < 0 ||
	    make_alike(&copies[0], translator) < 0)
		return -1;
	steps = step_copy(&copies[0], most, &stepped);
	limited.most = stepped.count + 1;
	follow(translator, &copies[1], NULL, &limits, &watcher, &followed);
	rc = compare(&stepped, &limited.list);
	printf("%s: %lu instructions, %zu of them and references; followed %zu, ended by %s (%ld, %#llx), %s; "
	       "%llu blocks, %llu stepped, %llu stops, %llu pages of code written, %llu shared\n",
	       rc ? "DIFFERENT" : "same", steps, stepped.count, limited.list.count, ends[followed.end],
	       followed.call, (unsigned long long)followed.address,
	       followed.end == FOLLOW_FAILED ? strerror(errno) : "",
	       (unsigned long long)followed.translated, (unsigned long long)followed.stepped,
	       (unsigned long long)followed.stops, (unsigned long long)followed.written_code_pages,
	       (unsigned long long)followed.shared_pages);
	free(stepped.all);
	free(limited.list.all);
	copy_kill(&copies[0]);
	copy_kill(&copies[1]);
	return rc;
}

/* A thread that runs now, or its first one. */
static pid_t running_thread(pid_t program)
{
	char command[128], state;
	int tid, found = program;
	FILE *threads;

	snprintf(command, sizeof(command),
		 "cat /proc/%d/task/[0-9]*/stat 2>/dev/null | sed 's/ (.*) / /'", (int)program);
	threads = popen(command, "r");
	if (!threads)
		return program;
	while (fscanf(threads, "%d %c%*[^\n]", &tid, &state) == 2)
		if (state == 'R')
			found = tid;
	pclose(threads);
	return found;
}

#define MOST_THREADS 256

/*
 * Two copies are of the same moment only if the other threads stand still: but the first one, by
 * which the injector would know that the program is traced.  Returns how many do.
 */
static unsigned hold_others(pid_t program, pid_t thread, pid_t held[MOST_THREADS])
{
	unsigned count = 0;
	char path[64];
	struct dirent *each;
	DIR *threads;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)program);
	threads = opendir(path);
	while (threads && count < MOST_THREADS && (each = readdir(threads))) {
		const pid_t tid = atoi(each->d_name);

		if (tid <= 0 || tid == thread || tid == program ||
		    ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
			continue;
		if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) == 0 &&
		    tracee_wait_interrupted(tid, TRACEE_FOR_EVER) > 0)
			held[count++] = tid;
	}
	if (threads)
		closedir(threads);
	return count;
}

static void let_go(const pid_t *held, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		ptrace(PTRACE_DETACH, held[i], NULL, NULL);
}

int main(int argc, char **argv)
{
	pid_t held[MOST_THREADS];

	struct translator *translator = translator_make();
	unsigned different = 0, compared = 0;
	unsigned long pairs, most;
	pid_t injector, program;
	int socket, status;

	if (argc < 6 || strcmp(argv[4], "--") != 0 || !translator) {
		fprintf(stderr, "compare INJECTOR COPIES INSTRUCTIONS -- PROGRAM...\n");
		return 3;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	pairs = strtoul(argv[2], NULL, 10);
	most = strtoul(argv[3], NULL, 10);
	socket = injector_start(argv[1], &injector);
	program = fork();
	if (program == 0) {
		int null = open("/dev/null", 1);

		dup2(null, 1);
		execvp(argv[5], argv + 5);
		_exit(127);
	}
	injected_nap(150000);
	for (unsigned long i = 0; i < 80 * pairs && compared < pairs; i++) {
		struct injector_request request = {
			.task = INJECT_COPY, .program = program, .thread = running_thread(program),
			.sibling = true, .copies = 2, .wait_ms = 1000, .tracer = getpid(),
		};
		const unsigned count = hold_others(program, request.thread, held);
		struct injector_answer answer;
		int rc = injector_ask(socket, &request, &answer);

		let_go(held, count);
		if (rc < 0 || answer.refusal == REFUSED_GONE)
			break;
		if (answer.refusal != INJECTED || answer.missing) {
			for (unsigned k = 0; k < answer.copies; k++)
				copy_kill(&answer.copy[k]);
			injected_nap(20000);
			continue;
		}
		rc = compare_copies(answer.copy, translator, most);
		compared += rc >= 0;
		different += rc > 0;
		injected_nap(30000);
	}
	kill(program, SIGKILL);
	while (waitpid(-1, &status, __WALL | WNOHANG) > 0)
		;
	close(socket);
	translator_free(translator, NULL);
	printf("%u compared, %u different\n", compared, different);
	return different ? 1 : compared ? 0 : 2;
}
