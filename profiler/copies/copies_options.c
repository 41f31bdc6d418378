/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "copies_options.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock.h"

/* A server is slow while it is recorded: no longer than this. */
#define ARMS_RECORD_MS 300u

static const char help[] =
	"usage: tlbcost-copies --out FOLDER [options] [--] COMMAND [ARG...]\n"
	"       tlbcost-copies --out FOLDER [options] --pid PID\n"
	"\n"
	"Copy threads of COMMAND, or of a running process, at random instants of its CPU time;\n"
	"follow the copies' references, and write what TLBs would make of them to tables in\n"
	"FOLDER, which exists.  The program itself runs as ever.\n"
	"\n"
	"  --arms N             do not follow copies: have arms of each do N slices of its work\n"
	"                       natively, on base pages and on huge pages\n"
	"  --children           copy its descendants, too\n"
	"  --copies N           take this many copies, whatever they cost\n"
	"  --discard, -d        drop what COMMAND prints; the end of its standard error is\n"
	"                       kept in FILE.stderr, see --run\n"
	"  --expected-cpu-ns N  the CPU time that is expected: spreads --copies evenly\n"
	"  --fault-ns N         CPU time of a page that is copied on write; default 1200\n"
	"  --first N            number of the first window and of the tables, for several runs\n"
	"                       into one folder\n"
	"  --hold               let threads that run wait while a copy is followed: huge pages\n"
	"                       stay whole; without it such a process is not copied\n"
	"  --help               print this and stop\n"
	"  --most-pause-ns N    make no copy that would stop a thread for longer\n"
	"  --overhead FRACTION  of the program's CPU time that copies may cost; default 0.05\n"
	"  --pid PID, -p PID    a running process, until it ends or SIGINT\n"
	"  --record N           record N system calls for each copy, to be replayed in it; with\n"
	"                       --arms (before it) for one slice in which they are answered\n"
	"  --run FILE, -t       write a 'run' table of COMMAND\n"
	"  --seconds N          with --pid: no longer than this\n"
	"  --seed N             of the random instants\n"
	"  --shared             with --arms: put memory that it shares on huge pages, too\n"
	"  --text               with --arms: the same for its code and that of libraries\n"
	"  --thread TID         copy this thread alone\n"
	"  --until-seconds N    with --arms: once four copies were measured, begin with\n"
	"                       none that would end later than N seconds after the start\n"
	"  --user UID:GID, -u   run COMMAND as this user (needs root)\n"
	"  --window-seconds N   give up a window after N seconds; default 5\n"
	"  --workers N          copies that are followed at the same time\n"
	"\n"
	"What is modelled: --base-page, --huge-page, --l1d, --l1i, --stlb, --stlb-folded,\n"
	"--core, --warm, --most-warm, --least-warm, --core-warm,\n"
	"--measure, --cycle-ps, --dram.\n"
	"\n"
	"Exits as COMMAND does, or with 128 + the signal that killed it; 4 if the process\n"
	"cannot be copied, 125 if tlbcost-copies itself failed, 126 or 127 if COMMAND could\n"
	"not be started.\n";

static int misuse(const char *what, const char *detail)
{
	fprintf(stderr, "tlbcost: %s%s\n", what, detail);
	fputs("tlbcost: hint: tlbcost-copies --help lists the options\n", stderr);
	return EXIT_OWN_FAILURE;
}

static bool number(const char *text, uint64_t most, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno && *value <= most;
}

static bool fraction(const char *text, double *value)
{
	char *end;

	*value = strtod(text, &end);
	return end != text && !*end && isfinite(*value) && *value >= 0 && *value <= 1;
}

enum {
	OPTION_ARMS = 256, OPTION_CHILDREN, OPTION_COPIES, OPTION_EXPECTED, OPTION_FAULT, OPTION_FIRST, OPTION_HELP,
	OPTION_HOLD, OPTION_MOST_PAUSE, OPTION_OUT, OPTION_OVERHEAD, OPTION_RECORD, OPTION_SECONDS, OPTION_SEED, OPTION_SHARED,
	OPTION_TEXT, OPTION_THREAD, OPTION_UNTIL, OPTION_WINDOW,
	OPTION_WORKERS, OPTION_MODEL,
};

/* Those with a number.  Returns whether it is one. */
static bool take_number(struct copies_options *options, int c, const char *text)
{
	struct sampling_options *sampling = &options->sampling;
	const uint64_t most = c == 'p' || c == OPTION_THREAD || c == OPTION_FIRST || c == OPTION_RECORD ? INT32_MAX :
			      c == OPTION_WORKERS ? WORKERS_MOST :
			      c == OPTION_ARMS ? ARMS_MOST_SLICES :
			      c == OPTION_SECONDS || c == OPTION_UNTIL || c == OPTION_WINDOW ? 1000000000 : INT64_MAX;
	uint64_t value;

	if (!number(text, most, &value))
		return false;
	switch (c) {
	case 'p':
		options->pid = (pid_t)value;
		return value > 0;
	case OPTION_ARMS:
		options->arms.slices = (uint32_t)value;
		sampling->arms = true;
		sampling->window_ns = options->arms.time_ns;
		/* They do slices between calls, unless --record follows. */
		sampling->record_calls = 0;
		sampling->record_ms = ARMS_RECORD_MS;
		return value > 0;
	case OPTION_COPIES:
		sampling->copies = value;
		return value > 0;
	case OPTION_EXPECTED:
		sampling->expected_cpu_ns = value;
		break;
	case OPTION_FAULT:
		sampling->fault_ns = value;
		return value > 0;
	case OPTION_FIRST:
		sampling->first_window = (uint32_t)value;
		break;
	case OPTION_MOST_PAUSE:
		sampling->most_pause_ns = value;
		return value > 0;
	case OPTION_RECORD:
		sampling->record_calls = (uint32_t)value;
		break;
	case OPTION_SECONDS:
		options->seconds = value;
		return value > 0;
	case OPTION_THREAD:
		sampling->thread = (pid_t)value;
		return value > 0;
	case OPTION_SEED:
		sampling->seed = value;
		break;
	case OPTION_UNTIL:
		sampling->until_ns = value * UINT64_C(1000000000);
		return value > 0;
	case OPTION_WINDOW:
		sampling->window_ns = value * UINT64_C(1000000000);
		return value > 0;
	default:
		options->workers = (uint32_t)value;
		return value > 0;
	}
	return true;
}

/* Returns -1 if all is well, else the exit code. */
static int take_option(struct copies_options *options, int c, const char *name)
{
	switch (c) {
	case 'd':
		options->program.discard = 1;
		return -1;
	case 't':
		options->program.table = optarg;
		return -1;
	case 'u':
		options->program.user = optarg;
		return -1;
	case OPTION_CHILDREN:
		options->sampling.children = true;
		return -1;
	case OPTION_HOLD:
		options->sampling.hold = true;
		return -1;
	case OPTION_SHARED:
		options->arms.shared = true;
		return -1;
	case OPTION_TEXT:
		options->arms.text = true;
		return -1;
	case OPTION_HELP:
		fputs(help, stdout);
		return fflush(stdout) == 0 ? 0 : EXIT_OWN_FAILURE;
	case OPTION_OUT:
		options->out = optarg;
		return -1;
	case OPTION_OVERHEAD:
		if (!fraction(optarg, &options->sampling.fraction))
			return misuse("not a fraction between 0 and 1: ", optarg);
		return -1;
	case OPTION_MODEL:
		if (window_options_take(&options->window, name, optarg) != 1)
			return misuse("this is not understood: --", name);
		return -1;
	case '?':
		return misuse("the command line of tlbcost-copies is wrong", "");
	default:
		return take_number(options, c, optarg) ? -1 : misuse("not a number that fits: ",
								     optarg);
	}
}

static int check(struct copies_options *options, char **rest)
{
	const char *wrong = options->arms.slices ? NULL : window_options_check(&options->window);

	options->program.argv = *rest ? rest : NULL;
	if (wrong)
		return misuse(wrong, "");
	if (!options->out)
		return misuse("no --out FOLDER was given", "");
	if (options->pid && *rest)
		return misuse("a COMMAND and --pid were given", "");
	if (!options->pid && !*rest)
		return misuse("nothing to run: no COMMAND was given", "");
	if (options->seconds && !options->pid)
		return misuse("--seconds is for --pid", "");
	return -1;
}

int copies_options_parse(int argc, char **argv, struct copies_options *options)
{
	static const struct option long_options[] = {
		{ "arms", required_argument, NULL, OPTION_ARMS },
		{ "base-page", required_argument, NULL, OPTION_MODEL },
		{ "children", no_argument, NULL, OPTION_CHILDREN },
		{ "copies", required_argument, NULL, OPTION_COPIES },
		{ "core", required_argument, NULL, OPTION_MODEL },
		{ "core-warm", required_argument, NULL, OPTION_MODEL },
		{ "cycle-ps", required_argument, NULL, OPTION_MODEL },
		{ "dram", required_argument, NULL, OPTION_MODEL },
		{ "discard", no_argument, NULL, 'd' },
		{ "expected-cpu-ns", required_argument, NULL, OPTION_EXPECTED },
		{ "fault-ns", required_argument, NULL, OPTION_FAULT },
		{ "first", required_argument, NULL, OPTION_FIRST },
		{ "help", no_argument, NULL, OPTION_HELP },
		{ "hold", no_argument, NULL, OPTION_HOLD },
		{ "huge-page", required_argument, NULL, OPTION_MODEL },
		{ "l1d", required_argument, NULL, OPTION_MODEL },
		{ "l1i", required_argument, NULL, OPTION_MODEL },
		{ "least-warm", required_argument, NULL, OPTION_MODEL },
		{ "measure", required_argument, NULL, OPTION_MODEL },
		{ "most-warm", required_argument, NULL, OPTION_MODEL },
		{ "most-pause-ns", required_argument, NULL, OPTION_MOST_PAUSE },
		{ "out", required_argument, NULL, OPTION_OUT },
		{ "overhead", required_argument, NULL, OPTION_OVERHEAD },
		{ "pid", required_argument, NULL, 'p' },
		{ "record", required_argument, NULL, OPTION_RECORD },
		{ "run", required_argument, NULL, 't' },
		{ "seconds", required_argument, NULL, OPTION_SECONDS },
		{ "seed", required_argument, NULL, OPTION_SEED },
		{ "shared", no_argument, NULL, OPTION_SHARED },
		{ "stlb", required_argument, NULL, OPTION_MODEL },
		{ "stlb-folded", required_argument, NULL, OPTION_MODEL },
		{ "text", no_argument, NULL, OPTION_TEXT },
		{ "thread", required_argument, NULL, OPTION_THREAD },
		{ "until-seconds", required_argument, NULL, OPTION_UNTIL },
		{ "user", required_argument, NULL, 'u' },
		{ "warm", required_argument, NULL, OPTION_MODEL },
		{ "window-seconds", required_argument, NULL, OPTION_WINDOW },
		{ "workers", required_argument, NULL, OPTION_WORKERS },
		{ NULL, 0, NULL, 0 },
	};
	int c, index = 0, code = -1;

	memset(options, 0, sizeof(*options));
	options->program.traced = 1;
	options->sampling.fraction = 0.05;
	options->sampling.fault_ns = BUDGET_FAULT_NS;
	options->sampling.record_calls = 20000;
	options->sampling.record_ms = 60;
	options->sampling.window_ns = UINT64_C(5000000000);
	options->sampling.seed = clock_ns();
	options->arms = (struct arms_options){
		.warm_ns = 150000000, .measured_ns = 240000000,
		.huge_page_bytes = UINT64_C(2) << 20, .time_ns = UINT64_C(60000000000),
	};
	window_options_init(&options->window);
	/* "+": the program's own options are not ours. */
	while (code < 0 && (c = getopt_long(argc, argv, "+dp:t:u:", long_options, &index)) != -1)
		code = take_option(options, c, long_options[index].name);
	return code < 0 ? check(options, argv + optind) : code;
}
