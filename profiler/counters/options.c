/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"

static const char help[] =
	"usage: tlbcost-count --event NAME=SPEC... [OPTION...] [--] [COMMAND [ARG...]]\n"
	"       tlbcost-count --probe --event NAME=SPEC... [OPTION...]\n"
	"       tlbcost-count --encode SPEC...\n"
	"\n"
	"Count events while COMMAND runs, or until the process counted ends or Ctrl-C,\n"
	"and write a 'counters' table.\n"
	"\n"
	"  --all-cpus         count all processes, on all CPUs\n"
	"  --cgroup PATH      count the processes of a cgroup: an absolute path, or one\n"
	"                     below the mount of the hierarchy\n"
	"  --counters N       programmable counters of one group\n"
	"  --discard          drop what COMMAND prints; with --run FILE the end of its\n"
	"                     standard error is kept in FILE.stderr\n"
	"  --encode           write an 'encoding' table of the SPECs and stop\n"
	"  --event NAME=SPEC  count this, under this name.  SPEC: alternatives separated\n"
	"                     by |, each a libpfm4 string or\n"
	"                     code:TYPE:CONFIG[:CONFIG1[:PRECISE]]\n"
	"  --fixed NAME,...   events with their own counters\n"
	"  --help             print this and stop\n"
	"  --interval MS      rows at each interval, of what was counted in it\n"
	"  --kernel-only      count while the CPU is in the kernel\n"
	"  --multiplex        let further groups take turns with the first; implied by\n"
	"                     --all-cpus, --cgroup, --interval and --pid\n"
	"  --no-inherit       leave out the children and threads to come\n"
	"  --output FILE      where the table goes; '-' is standard output, the default\n"
	"  --pid PID          count a running process, and what it starts\n"
	"  --probe            open the counters on this program itself, and let them run\n"
	"                     for a moment\n"
	"  --quiet            print nothing if no event can be counted: the table says why\n"
	"  --run FILE         write a 'run' table too, as tlbcost-run does\n"
	"  --user UID:GID     run COMMAND as this user (needs root)\n"
	"  --user-only        count while the CPU is not in the kernel\n"
	"\n"
	"Exits as COMMAND does, or with 128 + the signal that killed it; without COMMAND\n"
	"0, after SIGINT, SIGTERM and SIGHUP too; 4, with nothing run, if no event could\n"
	"be counted; 125 if tlbcost-count itself failed, 126 or 127 if COMMAND could not\n"
	"be started.\n";

static void misused(const char *what, const char *why) __attribute__((noreturn));

static void misused(const char *what, const char *why)
{
	exit(complain(EXIT_OWN_FAILURE, what, why, "tlbcost-count --help lists the options"));
}

/* Cells of a table hold no blanks. */
static int is_word(const char *text)
{
	for (const char *c = text; *c; c++)
		if (isspace((unsigned char)*c) || iscntrl((unsigned char)*c))
			return 0;
	return *text != '\0';
}

static void add_event(struct count_options *options, char *text)
{
	struct event *event = &options->events[options->event_count];
	char *spec = strchr(text, '=');
	char why[1024];

	if (!spec)
		misused(text, "an event is given as NAME=SPEC");
	*spec++ = '\0';
	if (!is_word(text))
		misused(text, "the name of an event is a single word");
	*event = (struct event){ .name = text };
	if (encode_event(spec, &event->encoding, why, sizeof(why)) < 0) {
		event->encode_error = errno;
		event->why = strdup(why);
	}
	options->event_count++;
}

static int read_number(const char *option, const char *text, long max)
{
	char *end;
	long number;

	errno = 0;
	number = strtol(text, &end, 10);
	if (!isdigit((unsigned char)*text) || *end || errno || number < 1 || number > max)
		misused(option, "not a number in the valid range");
	return (int)number;
}

static void set_scope(struct count_options *options, enum scope scope)
{
	if (options->scope != SCOPE_PROGRAM && options->scope != scope)
		misused("--all-cpus, --cgroup, --pid and --probe", "only one of them can be");
	options->scope = scope;
}

static void set_mode(struct count_options *options, enum count_mode mode)
{
	if (options->mode != COUNT_BOTH && options->mode != mode)
		misused("--user-only and --kernel-only", "only one of them can be");
	options->mode = mode;
}

static void mark_fixed(struct count_options *options, const char *names)
{
	for (size_t e = 0; e < options->event_count; e++) {
		const char *name = options->events[e].name;
		size_t length = strlen(name);

		for (const char *at = names; *at; at += strcspn(at, ","), at += *at == ',')
			if (strcspn(at, ",") == length && strncmp(at, name, length) == 0)
				options->events[e].is_fixed = 1;
	}
}

/* Which options go together, once all are known. */
static void check(const struct count_options *options)
{
	const struct program_options *program = &options->program;

	if (!options->event_count)
		misused("nothing to count", "no --event was given");
	if (options->scope == SCOPE_PROBE && program->argv)
		misused(program->argv[0], "--probe runs nothing");
	if (options->scope == SCOPE_PROGRAM && !program->argv)
		misused("nothing to count", "no COMMAND was given");
	if (!program->argv && (program->table || program->discard || program->user))
		misused("--discard, --run and --user", "no COMMAND was given");
	if (program->table && strcmp(program->table, options->output) == 0)
		misused(program->table, "both tables would go there");
}

enum {
	ALL_CPUS = 1, CGROUP, COUNTERS, DISCARD, ENCODE, EVENT, FIXED, HELP, INTERVAL,
	KERNEL_ONLY, MULTIPLEX, NO_INHERIT, OUTPUT, PID, PROBE, QUIET, RUN, USER, USER_ONLY,
};

static const struct option long_options[] = {
	{ "all-cpus", no_argument, NULL, ALL_CPUS },
	{ "cgroup", required_argument, NULL, CGROUP },
	{ "counters", required_argument, NULL, COUNTERS },
	{ "discard", no_argument, NULL, DISCARD },
	{ "encode", no_argument, NULL, ENCODE },
	{ "event", required_argument, NULL, EVENT },
	{ "fixed", required_argument, NULL, FIXED },
	{ "help", no_argument, NULL, HELP },
	{ "interval", required_argument, NULL, INTERVAL },
	{ "kernel-only", no_argument, NULL, KERNEL_ONLY },
	{ "multiplex", no_argument, NULL, MULTIPLEX },
	{ "no-inherit", no_argument, NULL, NO_INHERIT },
	{ "output", required_argument, NULL, OUTPUT },
	{ "pid", required_argument, NULL, PID },
	{ "probe", no_argument, NULL, PROBE },
	{ "quiet", no_argument, NULL, QUIET },
	{ "run", required_argument, NULL, RUN },
	{ "user", required_argument, NULL, USER },
	{ "user-only", no_argument, NULL, USER_ONLY },
	{ NULL, 0, NULL, 0 },
};

/* Options without a value. */
static void take_flag(struct count_options *options, int option)
{
	switch (option) {
	case ALL_CPUS:
		set_scope(options, SCOPE_SYSTEM);
		break;
	case DISCARD:
		options->program.discard = 1;
		break;
	case HELP:
		fputs(help, stdout);
		exit(fflush(stdout) == 0 ? 0 : EXIT_OWN_FAILURE);
	case KERNEL_ONLY:
		set_mode(options, COUNT_KERNEL);
		break;
	case MULTIPLEX:
		options->multiplex = 1;
		break;
	case NO_INHERIT:
		options->inherit = 0;
		break;
	case PROBE:
		set_scope(options, SCOPE_PROBE);
		break;
	case QUIET:
		options->quiet = 1;
		break;
	case USER_ONLY:
		set_mode(options, COUNT_USER);
		break;
	default:
		misused("an option", "unknown option, or its value is missing");
	}
}

static void take(struct count_options *options, int option, char *value)
{
	switch (option) {
	case CGROUP:
		set_scope(options, SCOPE_CGROUP);
		options->cgroup = value;
		break;
	case COUNTERS:
		options->room = read_number("--counters", value, 1000);
		break;
	case EVENT:
		add_event(options, value);
		break;
	case INTERVAL:
		options->interval_ms = (unsigned)read_number("--interval", value, INT_MAX);
		break;
	case OUTPUT:
		options->output = value;
		break;
	case PID:
		set_scope(options, SCOPE_PROCESS);
		options->pid = read_number("--pid", value, INT_MAX);
		break;
	case RUN:
		options->program.table = value;
		break;
	case USER:
		options->program.user = value;
		break;
	default:
		take_flag(options, option);
	}
}

void count_options_read(struct count_options *options, int argc, char **argv)
{
	const char *fixed = "";
	int option, encode = 0;

	*options = (struct count_options){ .inherit = 1, .output = "-" };
	/* No more events than words. */
	options->events = calloc((size_t)argc, sizeof(*options->events));
	if (!options->events)
		misused("cannot hold the events", strerror(errno));
	/* "+": the program's own options are not ours. */
	while ((option = getopt_long(argc, argv, "+", long_options, NULL)) != -1) {
		if (option == ENCODE)
			encode = 1;
		else if (option == FIXED)
			fixed = optarg;
		else
			take(options, option, optarg);
	}
	if (encode) {
		options->specs = argv + optind;
		return;
	}
	options->program.argv = argv[optind] ? argv + optind : NULL;
	mark_fixed(options, fixed);
	/* These cannot be repeated in order to count the rest. */
	options->multiplex |= options->interval_ms || options->scope == SCOPE_SYSTEM ||
			      options->scope == SCOPE_CGROUP ||
			      options->scope == SCOPE_PROCESS;
	check(options);
}

void count_options_free(struct count_options *options)
{
	for (size_t e = 0; e < options->event_count; e++)
		free(options->events[e].why);
	free(options->events);
}
