/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What do TLB misses and page faults cost on this machine?  Measures; concludes nothing. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "clock.h"
#include "complain.h"
#include "cpu.h"
#include "cpuid_raw.h"
#include "cycles.h"
#include "first_touch.h"
#include "load.h"
#include "page_sizes.h"
#include "options.h"
#include "plan.h"
#include "sysfile.h"

/* What the largest packed chains need. */
#define PACKED_BYTES ((size_t)64 << 20)

/* Is that much memory of these pages really available? */
static int can_have(const struct page_kind *pages, size_t bytes)
{
	size_t count = bytes / pages->bytes ? bytes / pages->bytes : 1;
	struct arena arena;
	int had;

	if (count > pages->limit_bytes / pages->bytes)
		count = pages->limit_bytes / pages->bytes;
	if (arena_open(&arena, pages->method, pages->bytes, count) != 0)
		return 0;
	had = arena_extend(&arena, count, UINT64_MAX) == 0;
	arena_close(&arena);
	return had;
}

/* Pages of this size, as the options request them.  Returns 0, or -1 with the reason noted. */
static int find_pages(const struct options *options, const struct machine *machine,
		      const struct page_sizes *sizes, size_t bytes, struct page_kind *pages,
		      struct samples *samples)
{
	const char *method = options->huge_method;
	const struct page_size *size =
		page_sizes_pick(sizes, bytes, !method ? ARENA_BASE :
				strcmp(method, "thp") == 0 ? ARENA_THP : ARENA_HUGETLB);
	const char *reason = NULL;
	char key[48];

	if (!size) {
		reason = "this page size is not available here";
	} else if (!size->available_bytes) {
		reason = size->reason;
	} else {
		*pages = (struct page_kind){ bytes, size->method, machine->memory_limit_bytes };
		if (size->available_bytes != UINT64_MAX)
			pages->limit_bytes = (size_t)size->available_bytes;
		if (options->max_memory_bytes && options->max_memory_bytes < pages->limit_bytes)
			pages->limit_bytes = options->max_memory_bytes;
		if (pages->limit_bytes < bytes)
			reason = "not enough memory";
		else if (!can_have(pages, bytes))
			reason = "the kernel did not provide pages of this size";
	}
	if (!reason)
		return 0;
	snprintf(key, sizeof(key), "skipped_%zu", bytes);
	samples_note(samples, key, "%s", reason);
	return -1;
}

/* The usual huge page, and whether packed chains can be in such pages. */
static int find_huge(const struct options *options, struct machine *machine,
		     const struct page_sizes *sizes, struct page_kind *huge,
		     struct samples *samples)
{
	size_t bytes = page_sizes_huge_bytes();
	char key[48];

	machine->packed = machine->base;
	if (!bytes) {
		samples_note(samples, "skipped_huge", "the kernel reports no huge page size");
		return -1;
	}
	if (find_pages(options, machine, sizes, bytes, huge, samples) != 0)
		return -1;
	if (can_have(huge, PACKED_BYTES)) {
		machine->packed = *huge;
		return 0;
	}
	snprintf(key, sizeof(key), "limited_%zu_packed", bytes);
	samples_note(samples, key, "too few of them: packed chains are in base pages");
	return 0;
}

/* The page sizes to measure. */
static void find_sizes(const struct options *options, struct machine *machine,
		       struct page_kind *huge, struct plan *plan, struct samples *samples)
{
	struct page_sizes sizes;
	int have_huge;

	page_sizes_find(&sizes, machine->base.bytes);
	have_huge = find_huge(options, machine, &sizes, huge, samples) == 0;
	if (!have_huge)
		huge->bytes = 0;
	if (!options->size_count) {
		plan->sizes[plan->size_count++] = machine->base;
		if (have_huge)
			plan->sizes[plan->size_count++] = *huge;
		return;
	}
	for (size_t i = 0; i < options->size_count; i++) {
		struct page_kind *pages = &plan->sizes[plan->size_count];

		if (options->page_sizes[i] == machine->base.bytes)
			*pages = machine->base;
		else if (have_huge && options->page_sizes[i] == huge->bytes)
			*pages = *huge;
		else if (find_pages(options, machine, &sizes, options->page_sizes[i], pages,
				    samples) != 0)
			continue;
		plan->size_count++;
	}
}

/* How much memory to use.  Returns -1 to go on, or an exit code. */
static int find_memory(const struct options *options, const struct plan *plan,
		       struct machine *machine)
{
	struct memory_room room;
	char what[160], why[640];
	size_t least;

	if (sysfile_memory_room(&room) != 0) {
		if (!options->max_memory_bytes)
			return complain(EXIT_CANNOT_MEASURE, "cannot find out how much memory is free",
					strerror(errno), "tlbcost-calibrate --max-memory 2G");
		room.bytes = SIZE_MAX;
	}
	/* Half: others need free memory too. */
	machine->memory_limit_bytes = room.bytes / 2 > SIZE_MAX ? SIZE_MAX : (size_t)(room.bytes / 2);
	if (options->max_memory_bytes && options->max_memory_bytes < machine->memory_limit_bytes) {
		machine->memory_limit_bytes = options->max_memory_bytes;
		room.bytes = options->max_memory_bytes;
		strcpy(room.limit, "--max-memory");
	}
	machine->base = (struct page_kind){
		(size_t)sysconf(_SC_PAGESIZE), ARENA_BASE, machine->memory_limit_bytes,
	};
	machine->packed = machine->base;
	least = plan_least_bytes(plan, machine);
	if (machine->memory_limit_bytes >= least)
		return -1;
	snprintf(what, sizeof(what), "not enough memory to calibrate: %zu MiB are needed%s",
		 (least >> 20) + 1,
		 strcmp(room.limit, "--max-memory") == 0 ? "" : ", twice that must be free");
	snprintf(why, sizeof(why), "%s leaves %llu MiB", room.limit,
		 (unsigned long long)(room.bytes >> 20));
	return complain(EXIT_CANNOT_MEASURE, what, why,
			"raise that limit, or end programs that use the memory");
}

static void write_progress(void *closure, double share)
{
	const int *fd = closure;

	/* A reader that closed the pipe ends us, by SIGPIPE or here. */
	if (*fd >= 0 && dprintf(*fd, "progress %d\n", (int)(100 * share)) < 0 && errno == EPIPE)
		_exit(FAILED);
}

static int write_samples(const struct options *options, const struct machine *machine,
			 size_t huge_bytes, const struct samples *samples, uint64_t start_ns,
			 const struct load *before)
{
	const struct load after = load_now(machine->cpu);
	struct table table;
	sigset_t all;

	/* Ending now would leave the file under its temporary name. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	if (table_open(&table, options->output, "samples", 2) != 0)
		return complain(FAILED, options->output, strerror(errno), NULL);
	table_key(&table, "cpu", "%d", machine->cpu);
	table_key(&table, "base_page_bytes", "%zu", machine->base.bytes);
	table_key(&table, "huge_page_bytes", huge_bytes ? "%zu" : "NA", huge_bytes);
	table_key(&table, "line_bytes", "%zu", machine->line_bytes);
	table_key(&table, "packed_spacing_bytes", "%zu",
		  layout_packed(machine->line_bytes).spacing);
	table_key(&table, "packed_page_bytes", "%zu", machine->packed.bytes);
	table_key(&table, "region_bytes", "%zu", layout_region_bytes(machine->base.bytes));
	table_key(&table, "memory_limit_bytes", "%zu", machine->memory_limit_bytes);
	table_key(&table, "seed", "%llu", (unsigned long long)options->seed);
	table_key(&table, "duration_s", "%.1f", (double)(clock_ns() - start_ns) / 1e9);
	load_write(before, &after, &table);
	table_key(&table, "timings", "%u", machine->timings);
	table_key(&table, "interrupted", "%u", machine->interrupted);
	cpuid_raw_write(&table);
	samples_write(samples, &table);
	if (table_close(&table) != 0)
		return complain(FAILED, options->output, strerror(errno), NULL);
	return DONE;
}

int main(int argc, char **argv)
{
	struct options options = {
		.output = "-", .groups = groups_default, .time_limit_s = 20, .seed = 1,
		.cpu = -1, .progress_fd = -1,
	};
	struct plan plan = { 0 };
	struct machine machine = { .progress = write_progress, .closure = &options.progress_fd };
	struct page_kind huge = { 0 };
	struct samples samples = { 0 };
	uint64_t start_ns = clock_ns();
	struct load before;
	long line = sysconf(_SC_LEVEL1_DCACHE_LINESIZE);
	int rc;

	rc = parse_options(argc, argv, &options);
	if (rc >= 0)
		return rc;
	/* The reader of our progress may be killed; if it is dead already, the next line ends us. */
	if (options.progress_fd >= 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (options.first_touch_bytes) {
		rc = first_touches_write(options.output, options.first_touch_bytes,
					 (size_t)sysconf(_SC_PAGESIZE), page_sizes_huge_bytes(),
					 options.at_hand);
		return rc == 0 ? DONE : complain(FAILED, "cannot time first touches",
						 strerror(errno), "with less memory");
	}
	/* Unknown to glibc on some Arm systems; 128 covers the larger of the usual two. */
	machine.line_bytes = line > 0 ? (size_t)line : 128;
	machine.seed = options.seed;
	plan.groups = options.groups;
	plan.lines = options.line_count ? options.lines : NULL;
	plan.line_count = options.line_count;
	plan.sweeps = options.sweeps;
	/* A share is reserved for writing, and for the timing in progress at the end. */
	plan.end_ns = start_ns + (uint64_t)(options.time_limit_s * 1e9 * 0.95);
	rc = find_memory(&options, &plan, &machine);
	if (rc >= 0)
		return rc;
	machine.cpu = cpu_pin(options.cpu);
	if (machine.cpu < 0)
		return complain(FAILED, "cannot stay on one CPU", strerror(errno),
				"taskset -p $$ shows which CPUs may be used");
	find_sizes(&options, &machine, &huge, &plan, &samples);
	cycles_wake();
	before = load_now(machine.cpu);
	rc = DONE;
	if (plan_run(&plan, &machine, &samples) != 0)
		rc = complain(FAILED, "cannot calibrate", strerror(errno), NULL);
	if (options.progress_fd > STDERR_FILENO)
		close(options.progress_fd);
	if (rc == DONE)
		rc = write_samples(&options, &machine, huge.bytes, &samples, start_ns, &before);
	samples_free(&samples);
	return rc;
}
