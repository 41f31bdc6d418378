/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What does one phase of a native run of a program cost? */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "program.h"
#include "region_trace.h"

static const char help[] =
	"usage: tlbcost-region --start OFFSET:FILE... [--end OFFSET:FILE...]\n"
	"                      [--region FILE] [--run FILE] [--discard] [--user UID:GID]\n"
	"                      [--] COMMAND [ARG...]\n"
	"\n"
	"Run COMMAND once, and write a 'region' table of what it cost from each time that\n"
	"its process comes to a start until it comes to an end, or ends.\n"
	"\n"
	"  --discard            drop what COMMAND prints; the end of its standard error\n"
	"                       is kept in FILE.stderr of the run\n"
	"  --end OFFSET:FILE    a place in a file that it executes; may be repeated\n"
	"  --help               print this and stop\n"
	"  --region FILE        where the table goes; '-' is standard output, the default\n"
	"  --run FILE           write a 'run' table of the whole run, too\n"
	"  --start OFFSET:FILE  as --end\n"
	"  --user UID:GID       run COMMAND as this user (needs root)\n"
	"\n"
	"Exits as COMMAND does, or with 128 + the signal that killed it; 4 if this\n"
	"machine cannot watch programs, 125 if tlbcost-region itself failed, 126 or 127\n"
	"if COMMAND could not be started.\n";

struct options {
	struct program_options program;
	const char *table;
};

static void usage(void) __attribute__((noreturn));

static void usage(void)
{
	fputs("tlbcost: hint: tlbcost-region --help lists the options\n", stderr);
	exit(EXIT_OWN_FAILURE);
}

static void add_place(struct place *places, unsigned *count, const char *text)
{
	if (*count == MOST_PLACES || place_parse(&places[*count], text) < 0)
		exit(complain(EXIT_OWN_FAILURE, text, "not a place, or there are too many",
			      "--start OFFSET:FILE"));
	++*count;
}

static struct options parse_options(int argc, char **argv, struct region *region)
{
	static const struct option long_options[] = {
		{ "discard", no_argument, NULL, 'd' },
		{ "end", required_argument, NULL, 'e' },
		{ "help", no_argument, NULL, 'h' },
		{ "region", required_argument, NULL, 't' },
		{ "run", required_argument, NULL, 'r' },
		{ "start", required_argument, NULL, 's' },
		{ "user", required_argument, NULL, 'u' },
		{ NULL, 0, NULL, 0 },
	};
	struct options options = { .table = "-" };
	int c;

	while ((c = getopt_long(argc, argv, "+", long_options, NULL)) != -1) {
		switch (c) {
		case 'd': options.program.discard = 1; break;
		case 'e': add_place(region->ends, &region->end_count, optarg); break;
		case 'h':
			fputs(help, stdout);
			exit(fflush(stdout) == 0 ? 0 : EXIT_OWN_FAILURE);
		case 'r': options.program.table = optarg; break;
		case 's': add_place(region->starts, &region->start_count, optarg); break;
		case 't': options.table = optarg; break;
		case 'u': options.program.user = optarg; break;
		default: usage();
		}
	}
	if (!argv[optind] || !region->start_count)
		exit(complain(EXIT_OWN_FAILURE, "nothing to run",
			      "no COMMAND or no --start was given", NULL));
	options.program.argv = argv + optind;
	return options;
}

static void write_region(struct table *table, const struct region *region)
{
	const struct reading *sum = &region->sum;
	const uint64_t cells[] = { sum->wall_ns, sum->user_ns, sum->system_ns, sum->minor_faults,
				   sum->major_faults };
	const int known = region->ended && !region->unknown && region->begins <= MOST_TIMES;

	table_count(table, region->begins);
	table_count(table, region->ended);
	for (size_t i = 0; i < sizeof(cells) / sizeof(cells[0]); i++)
		if (known)
			table_count(table, cells[i]);
		else
			table_na(table);
}

static int fail(const char *what)
{
	return complain(EXIT_OWN_FAILURE, what, strerror(errno), NULL);
}

int main(int argc, char **argv)
{
	static struct region region;
	static struct program program;
	const struct options options = parse_options(argc, argv, &region);
	const struct watch_hook during = { .fd = -1, .ready = region_stops, .context = &region };
	const struct program_hooks hooks = {
		.attach = region_attach, .context = &region, .during = &during,
	};
	struct table table;
	int code;

	if (!breakpoints_supported())
		return complain(EXIT_CANNOT_MEASURE, "cannot watch regions of programs here",
				"this processor is not x86-64", NULL);
	if (program_hold_descriptors() < 0)
		return fail("cannot open /dev/null");
	if (program_open(&program, &options.program) < 0)
		return fail(program.failed);
	code = program_run(&program, &hooks);
	if (code < 0)
		return fail(program.failed);
	region_finish(&region);
	if (table_open(&table, options.table, "region", 1) < 0) {
		program_discard(&program);
		return fail(options.table);
	}
	table_columns(&table, "begins ends wall_ns user_ns system_ns minor_faults major_faults");
	write_region(&table, &region);
	if (table_close(&table) < 0) {
		program_discard(&program);
		return fail(options.table);
	}
	return program_close(&program) < 0 ? fail(program.failed) : code;
}
