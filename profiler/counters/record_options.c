/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "record_options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "complain.h"

static const char help[] =
	"usage: tlbcost-record [options] [--] COMMAND [ARG...]\n"
	"       tlbcost-record [options] --pid PID | --all-cpus [[--] COMMAND [ARG...]]\n"
	"\n"
	"Write a 'hits' table of where events of COMMAND occur: at every PERIODth event\n"
	"the kernel records the instruction.\n"
	"\n"
	"  --accesses         write an 'accesses' table instead: a row for each sample that\n"
	"                     has the address of its data\n"
	"  --addresses        record the address of the data too, if a sample has it\n"
	"  --all-cpus         sample all processes, until COMMAND or SIGINT ends it\n"
	"  --discard          drop what COMMAND prints; with --run FILE the end of its\n"
	"                     standard error is kept in FILE.stderr\n"
	"  --event NAME=SPEC  an event: libpfm4's name of it, or code:TYPE:CONFIG; of\n"
	"                     several separated by '|' the first that is known here;\n"
	"                     may be repeated\n"
	"  --frequency N      take N samples a second of the last --event, or, before the\n"
	"                     first, of each; the default is 1000\n"
	"  --help             print this and stop\n"
	"  --kernel-only      sample in the kernel only\n"
	"  --output FILE      where the table goes; '-' is standard output, the default\n"
	"  --period N         take each Nth of the last --event, or, before the first, of\n"
	"                     each\n"
	"  --pid PID          sample this process, until COMMAND, SIGINT or its own end\n"
	"  --quiet            print nothing about events that cannot be sampled: the table\n"
	"                     has them\n"
	"  --run FILE         write a 'run' table of COMMAND\n"
	"  --user UID:GID     run COMMAND as this user (needs root)\n"
	"  --user-only        sample outside the kernel only\n"
	"\n"
	"Exits as COMMAND does, or with 128 + the signal that killed it; 4 if nothing\n"
	"can be sampled here, 125 if tlbcost-record itself failed, 126 or 127 if COMMAND\n"
	"could not be started.\n";

enum { DEFAULT_FREQUENCY = 1000 };

/* The period or frequency of one event, or of all. */
struct pace {
	uint64_t period, frequency;
};

struct parser {
	struct record_options *options;
	struct pace pace;	/* of all events without one of their own */
};

static int misuse(const char *what, const char *detail)
{
	fprintf(stderr, "tlbcost: %s%s\n", what, detail);
	fputs("tlbcost: hint: tlbcost-record --help lists the options\n", stderr);
	return EXIT_OWN_FAILURE;
}

static int number(const char *text, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	return *text < '0' || *text > '9' || *end || errno || !*value ? -1 : 0;
}

/* Returns -1 if all is well, else the exit code; as all that follow. */
static int set_pace(struct parser *parser, const char *text, int is_period)
{
	struct record_options *options = parser->options;
	struct pace pace = { 0 };

	if (number(text, is_period ? &pace.period : &pace.frequency) < 0)
		return misuse(is_period ? "not a period: " : "not a frequency: ", text);
	if (!options->event_count) {
		parser->pace = pace;
		return -1;
	}
	options->events[options->event_count - 1].period = pace.period;
	options->events[options->event_count - 1].frequency = pace.frequency;
	return -1;
}

static int add_event(struct parser *parser, char *text)
{
	struct record_options *options = parser->options;
	char *equals = strchr(text, '='), why[512];
	struct sampled_event event = { .name = text }, *events;

	if (!equals || equals == text)
		return misuse("not NAME=SPEC: ", text);
	*equals = '\0';
	if (strstr(equals + 1, "arm_spe")) {
		/* Arm's sampling unit fills its own buffer with packets. */
		event.unknown = 1;
		event.error = EOPNOTSUPP;
	} else if (encode_event(equals + 1, &event.encoding, why, sizeof(why)) < 0) {
		event.unknown = 1;
		event.error = errno;
	}
	events = realloc(options->events, (options->event_count + 1) * sizeof(*events));
	if (!events)
		return complain(EXIT_OWN_FAILURE, text, strerror(errno), NULL);
	options->events = events;
	events[options->event_count++] = event;
	return -1;
}

static int set_pid(struct record_options *options, const char *text)
{
	uint64_t pid;

	if (number(text, &pid) < 0 || pid > INT32_MAX)
		return misuse("not a process: ", text);
	options->pid = (pid_t)pid;
	return -1;
}

static int take_option(struct parser *parser, int c)
{
	struct record_options *options = parser->options;

	switch (c) {
	case 'a':
		options->pid = -1;
		return -1;
	case 'A':
		options->one_by_one = 1;
		/* fall through */
	case 'd':
		options->sampler.addresses = 1;
		return -1;
	case 'D':
		options->program.discard = 1;
		return -1;
	case 'e':
		return add_event(parser, optarg);
	case 'f':
	case 'P':
		return set_pace(parser, optarg, c == 'P');
	case 'h':
		fputs(help, stdout);
		return fflush(stdout) == 0 ? 0 : EXIT_OWN_FAILURE;
	case 'k':
		options->sampler.kernel_only = 1;
		return -1;
	case 'o':
		options->output = optarg;
		return -1;
	case 'p':
		return set_pid(options, optarg);
	case 'q':
		options->quiet = 1;
		return -1;
	case 'r':
		options->program.table = optarg;
		return -1;
	case 'u':
		options->program.user = optarg;
		return -1;
	case 'U':
		options->sampler.user_only = 1;
		return -1;
	default:
		return misuse("the command line of tlbcost-record is wrong", "");
	}
}

static int check(struct parser *parser, char **rest)
{
	struct record_options *options = parser->options;

	options->program.argv = *rest ? rest : NULL;
	if (options->sampler.user_only && options->sampler.kernel_only)
		return misuse("--user-only and --kernel-only leave nothing to sample", "");
	if (!options->pid && !*rest)
		return misuse("nothing to run: no COMMAND was given", "");
	if (!options->event_count)
		return misuse("no --event was given", "");
	options->sampler.on_exec = options->pid == 0;
	for (size_t i = 0; i < options->event_count; i++) {
		struct sampled_event *event = &options->events[i];

		if (event->period || event->frequency)
			continue;
		event->period = parser->pace.period;
		event->frequency = parser->pace.frequency;
		if (!event->period && !event->frequency)
			event->frequency = DEFAULT_FREQUENCY;
	}
	return -1;
}

int record_options_parse(int argc, char **argv, struct record_options *options)
{
	static const struct option long_options[] = {
		{ "accesses", no_argument, NULL, 'A' },
		{ "addresses", no_argument, NULL, 'd' },
		{ "all-cpus", no_argument, NULL, 'a' },
		{ "discard", no_argument, NULL, 'D' },
		{ "event", required_argument, NULL, 'e' },
		{ "frequency", required_argument, NULL, 'f' },
		{ "help", no_argument, NULL, 'h' },
		{ "kernel-only", no_argument, NULL, 'k' },
		{ "output", required_argument, NULL, 'o' },
		{ "period", required_argument, NULL, 'P' },
		{ "pid", required_argument, NULL, 'p' },
		{ "quiet", no_argument, NULL, 'q' },
		{ "run", required_argument, NULL, 'r' },
		{ "user", required_argument, NULL, 'u' },
		{ "user-only", no_argument, NULL, 'U' },
		{ NULL, 0, NULL, 0 },
	};
	struct parser parser = { .options = options };
	int c, code = -1;

	memset(options, 0, sizeof(*options));
	options->output = "-";
	/* "+": the program's own options are not ours. */
	while (code < 0 && (c = getopt_long(argc, argv, "+", long_options, NULL)) != -1)
		code = take_option(&parser, c);
	if (code < 0)
		code = check(&parser, argv + optind);
	if (code >= 0)
		record_options_free(options);
	return code;
}

void record_options_free(struct record_options *options)
{
	free(options->events);
	options->events = NULL;
}
