/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "load.h"

#include <inttypes.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"
#include "sysfile.h"

#define NS_PER_S 1000000000u

uint64_t load_switches(void)
{
	struct rusage usage;

	return getrusage(RUSAGE_THREAD, &usage) == 0 ? (uint64_t)usage.ru_nivcsw : 0;
}

/* "<ran> <waited> <timeslices>", all 0 where the kernel does not account for them. */
static void read_schedstat(struct load *load)
{
	char line[128];

	if (sysfile_line(line, sizeof(line), "/proc/thread-self/schedstat") != 0 ||
	    sscanf(line, "%" SCNu64 " %" SCNu64, &load->ran_ns, &load->waited_ns) != 2 ||
	    load->ran_ns == 0)
		load->ran_ns = load->waited_ns = LOAD_UNKNOWN;
}

/* "cpu<n> user nice system idle iowait irq softirq steal ...", in ticks. */
static uint64_t stolen_ns(int cpu)
{
	FILE *file = sysfile_open("/proc/stat");
	long ticks = sysconf(_SC_CLK_TCK);
	uint64_t found = LOAD_UNKNOWN, steal;
	char line[512], name[24];
	size_t length;

	if (!file)
		return LOAD_UNKNOWN;
	length = (size_t)snprintf(name, sizeof(name), "cpu%d ", cpu);
	while (ticks > 0 && fgets(line, sizeof(line), file))
		if (strncmp(line, name, length) == 0 &&
		    sscanf(line + length, "%*u %*u %*u %*u %*u %*u %*u %" SCNu64, &steal) == 1)
			found = steal * (NS_PER_S / (uint64_t)ticks);
	fclose(file);
	return found;
}

struct load load_now(int cpu)
{
	struct load load = { .at_ns = clock_ns(), .switches = load_switches() };

	read_schedstat(&load);
	load.stolen_ns = stolen_ns(cpu);
	return load;
}

static void write_change(struct table *table, const char *key, uint64_t before, uint64_t after)
{
	if (before == LOAD_UNKNOWN || after == LOAD_UNKNOWN || after < before)
		table_key(table, key, "NA");
	else
		table_key(table, key, "%" PRIu64, after - before);
}

void load_write(const struct load *before, const struct load *after, struct table *table)
{
	write_change(table, "measured_ns", before->at_ns, after->at_ns);
	write_change(table, "ran_ns", before->ran_ns, after->ran_ns);
	write_change(table, "waited_ns", before->waited_ns, after->waited_ns);
	write_change(table, "switches", before->switches, after->switches);
	write_change(table, "stolen_ns", before->stolen_ns, after->stolen_ns);
}
