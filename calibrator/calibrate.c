/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What do TLB misses and page faults cost on this machine?  Measures; concludes nothing. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "options.h"
#include "plan.h"
#include "sysfile.h"

static uint64_t free_pool_bytes(uint64_t page_bytes)
{
	uint64_t pages;

	if (sysfile_number(&pages, "/sys/kernel/mm/hugepages/hugepages-%llukB/free_hugepages",
			   (unsigned long long)(page_bytes >> 10)) != 0)
		return 0;
	return pages * page_bytes;
}

/* Which huge pages can be had, and how?  Leaves huge_bytes 0 if none, with the reason noted. */
static void find_huge(const struct options *options, struct sweep_machine *machine,
		      struct samples *samples)
{
	const char *method = options->huge_method;
	uint64_t size = 0;
	char mode[64];
	int thp;

	if (sysfile_number(&size, "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size") != 0 &&
	    sysfile_meminfo("Hugepagesize", &size) != 0) {
		samples_note(samples, "skipped_huge", "the kernel tells no huge page size");
		return;
	}
	thp = sysfile_line(mode, sizeof(mode), "/sys/kernel/mm/transparent_hugepage/enabled") == 0 &&
	      !strstr(mode, "[never]");
	if (method ? strcmp(method, "thp") == 0 : thp) {
		machine->huge_method = ARENA_THP;
		machine->huge_limit = machine->memory_limit;
	} else {
		machine->huge_method = ARENA_HUGETLB;
		machine->huge_limit = free_pool_bytes(size);
	}
	if (machine->huge_limit / (size_t)size < 2) {
		char key[48];

		snprintf(key, sizeof(key), "skipped_%llu", (unsigned long long)size);
		samples_note(samples, key, "%s", machine->huge_method == ARENA_THP ?
			     "not enough memory" :
			     "transparent huge pages are off and the hugetlb pool is empty");
		return;
	}
	machine->huge_bytes = (size_t)size;
}

/* How much memory to use.  Returns -1 to go on, or an exit code. */
static int find_memory(const struct options *options, struct sweep_machine *machine)
{
	struct memory_room room;
	char what[160], why[640];

	if (sysfile_memory_room(&room) != 0) {
		if (!options->max_memory)
			return complain(CANNOT_MEASURE, "cannot tell how much memory is free",
					strerror(errno), "tlbcost-calibrate --max-memory 2G");
		room.bytes = SIZE_MAX;
	}
	/* Half: what is free now is also wanted by others. */
	machine->memory_limit = room.bytes / 2 > SIZE_MAX ? SIZE_MAX : (size_t)(room.bytes / 2);
	if (options->max_memory && options->max_memory < machine->memory_limit) {
		machine->memory_limit = options->max_memory;
		room.bytes = options->max_memory;
		strcpy(room.limit, "--max-memory");
	}
	if (machine->memory_limit >= plan_least_bytes(machine))
		return -1;
	snprintf(what, sizeof(what), "not enough memory to calibrate: %zu MiB are needed%s",
		 (plan_least_bytes(machine) >> 20) + 1,
		 strcmp(room.limit, "--max-memory") == 0 ? "" : ", twice that must be free");
	snprintf(why, sizeof(why), "%s leaves %llu MiB", room.limit,
		 (unsigned long long)(room.bytes >> 20));
	return complain(CANNOT_MEASURE, what, why,
			"raise that limit, or end programs that use the memory");
}

/* Stay on one CPU: caches and TLBs are its own.  Returns the CPU, or -1 with errno set. */
static int pin(void)
{
	int cpu = sched_getcpu();
	cpu_set_t set;

	if (cpu < 0)
		return -1;
	CPU_ZERO(&set);
	CPU_SET((unsigned)cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set) == 0 ? cpu : -1;
}

static void write_progress(void *closure, double share)
{
	const int *fd = closure;

	/* A reader that went away ends us, by SIGPIPE or here. */
	if (*fd >= 0 && dprintf(*fd, "progress %d\n", (int)(100 * share)) < 0 && errno == EPIPE)
		_exit(FAILED);
}

static int write_samples(const struct options *options, const struct sweep_machine *machine,
			 const struct samples *samples, int cpu, uint64_t start_ns)
{
	struct table table;
	sigset_t all;

	/* Ended now, the file would stay under its temporary name. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	if (table_open(&table, options->output, "samples", 1) != 0)
		return complain(FAILED, options->output, strerror(errno), NULL);
	table_key(&table, "cpu", "%d", cpu);
	table_key(&table, "base_page_bytes", "%zu", machine->base_bytes);
	table_key(&table, "huge_page_bytes", machine->huge_bytes ? "%zu" : "NA",
		  machine->huge_bytes);
	table_key(&table, "line_bytes", "%zu", machine->line_bytes);
	table_key(&table, "packed_spacing_bytes", "%zu", SWEEP_PACKED_LINES * machine->line_bytes);
	table_key(&table, "memory_limit_bytes", "%zu", machine->memory_limit);
	table_key(&table, "duration_s", "%.1f", (double)(clock_ns() - start_ns) / 1e9);
	samples_write(samples, &table);
	if (table_close(&table) != 0)
		return complain(FAILED, options->output, strerror(errno), NULL);
	return DONE;
}

static int measure(const struct options *options, struct sweep_machine *machine,
		   struct samples *samples, uint64_t start_ns)
{
	size_t sizes[MAX_SIZES] = { machine->base_bytes, machine->huge_bytes };
	unsigned count = options->size_count ? options->size_count : machine->huge_bytes ? 2 : 1;
	/* A share is kept for writing, and for the step that is under way at the end. */
	double limit_ns = options->time_limit * 1e9 * 0.95;

	if (options->size_count)
		memcpy(sizes, options->page_sizes, sizeof(sizes));
	for (unsigned i = 0; i < count; i++) {
		uint64_t now = clock_ns();
		double left = limit_ns - (double)(now - start_ns);
		const struct plan plan = {
			.page_bytes = sizes[i], .start_ns = now,
			.limit_ns = left > 0 ? (uint64_t)(left / (count - i)) : 0,
			.done = i, .sizes = count,
		};
		char key[48];

		if (sizes[i] != machine->base_bytes && sizes[i] != machine->huge_bytes) {
			snprintf(key, sizeof(key), "skipped_%zu", sizes[i]);
			samples_note(samples, key, "not a page size that can be had here");
			continue;
		}
		if (plan_run(&plan, machine, samples) != 0)
			return complain(FAILED, "cannot calibrate", strerror(errno), NULL);
	}
	return DONE;
}

int main(int argc, char **argv)
{
	struct options options = { .output = "-", .time_limit = 20, .seed = 1, .progress_fd = -1 };
	struct sweep_machine machine = { 0 };
	struct samples samples = { 0 };
	uint64_t start_ns = clock_ns();
	long line = sysconf(_SC_LEVEL1_DCACHE_LINESIZE);
	int cpu, rc;

	rc = parse_options(argc, argv, &options);
	if (rc >= 0)
		return rc;
	machine.base_bytes = (size_t)sysconf(_SC_PAGESIZE);
	/* Unknown to glibc on some Arm systems; 128 covers the larger of the usual two. */
	machine.line_bytes = line > 0 ? (size_t)line : 128;
	machine.seed = options.seed;
	machine.progress = write_progress;
	machine.closure = &options.progress_fd;
	rc = find_memory(&options, &machine);
	if (rc >= 0)
		return rc;
	find_huge(&options, &machine, &samples);
	cpu = pin();
	if (cpu < 0)
		return complain(FAILED, "cannot stay on one CPU", strerror(errno), NULL);
	rc = measure(&options, &machine, &samples, start_ns);
	if (options.progress_fd > STDERR_FILENO)
		close(options.progress_fd);
	if (rc == DONE)
		rc = write_samples(&options, &machine, &samples, cpu, start_ns);
	samples_free(&samples);
	return rc;
}
