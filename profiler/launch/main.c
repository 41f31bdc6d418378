/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What does one native run of a program cost: time, page faults, memory? */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"
#include "program.h"

static const char help[] =
	"usage: tlbcost-run [--discard] [--output FILE] [--path PATH]\n"
	"                   [--user UID:GID] [--] COMMAND [ARG...]\n"
	"\n"
	"Run COMMAND once and write a 'run' table of its time, page faults and memory.\n"
	"\n"
	"  --discard        drop what COMMAND prints; the end of its standard error\n"
	"                   is kept in FILE.stderr\n"
	"  --help           print this and stop\n"
	"  --output FILE    where the table goes; '-' is standard output, the default\n"
	"  --path PATH      PATH of COMMAND (empty: none), without what perf adds to its\n"
	"                   environment\n"
	"  --user UID:GID   run COMMAND as this user (needs root)\n"
	"\n"
	"Exits as COMMAND does, or with 128 + the signal that killed it; 125 if\n"
	"tlbcost-run itself failed, 126 or 127 if COMMAND could not be started.\n";

static void fail(const char *what) __attribute__((noreturn));

static void fail(const char *what)
{
	exit(complain(EXIT_OWN_FAILURE, what, strerror(errno), NULL));
}

/* perf puts a folder of its own first, and PERF_BUILDID_DIR into the environment. */
static void set_path(const char *path)
{
	if ((*path ? setenv("PATH", path, 1) : unsetenv("PATH")) < 0 ||
	    unsetenv("PERF_BUILDID_DIR") < 0)
		fail("cannot set the environment");
}

static struct program_options parse_options(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "discard", no_argument, NULL, 'd' },
		{ "help", no_argument, NULL, 'h' },
		{ "output", required_argument, NULL, 'o' },
		{ "path", required_argument, NULL, 'p' },
		{ "user", required_argument, NULL, 'u' },
		{ NULL, 0, NULL, 0 },
	};
	struct program_options options = { .table = "-" };
	int c;

	/* "+": the program's own options are not ours. */
	while ((c = getopt_long(argc, argv, "+", long_options, NULL)) != -1) {
		switch (c) {
		case 'd':
			options.discard = 1;
			break;
		case 'h':
			fputs(help, stdout);
			exit(fflush(stdout) == 0 ? 0 : EXIT_OWN_FAILURE);
		case 'o':
			options.table = optarg;
			break;
		case 'p':
			set_path(optarg);
			break;
		case 'u':
			options.user = optarg;
			break;
		default:
			fputs("tlbcost: hint: tlbcost-run --help lists the options\n", stderr);
			exit(EXIT_OWN_FAILURE);
		}
	}
	if (!argv[optind])
		exit(complain(EXIT_OWN_FAILURE, "nothing to run", "no COMMAND was given",
			      "tlbcost-run [--output FILE] -- COMMAND [ARG...]"));
	options.argv = argv + optind;
	return options;
}

int main(int argc, char **argv)
{
	struct program_options options = parse_options(argc, argv);
	struct program program;
	int code;

	if (program_hold_descriptors() < 0)
		fail("cannot open /dev/null");
	if (program_open(&program, &options) < 0)
		fail(program.failed);
	code = program_run(&program, NULL);
	if (code < 0 || program_close(&program) < 0)
		fail(program.failed);
	return code;
}
