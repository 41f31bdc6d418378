/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What does one native run of a program cost: time, page faults, memory? */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "table.h"
#include "tail.h"
#include "user.h"
#include "watch.h"

enum { EXIT_OWN_FAILURE = 125, EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, EXIT_SIGNAL };

static const char columns[] =
	"wall_ns user_ns system_ns minor_faults major_faults max_rss_bytes "
	"exit_code signal exec_errno";

static const char help[] =
	"usage: tlbcost-run [--discard] [--output FILE] [--user UID:GID]\n"
	"                   [--] COMMAND [ARG...]\n"
	"\n"
	"Run COMMAND once and write a 'run' table of its time, page faults and memory.\n"
	"\n"
	"  --discard        drop what COMMAND prints; the end of its standard error\n"
	"                   is kept in FILE.stderr\n"
	"  --help           print this and stop\n"
	"  --output FILE    where the table goes; '-' is standard output, the default\n"
	"  --user UID:GID   run COMMAND as this user (needs root)\n"
	"\n"
	"Exits as COMMAND does, or with 128 + the signal that killed it; 125 if\n"
	"tlbcost-run itself failed, 126 or 127 if COMMAND could not be started.\n";

struct options {
	const char *output;
	const char *user;
	char *const *argv;
	int discard;
};

/* One run and what is needed around it. */
struct run {
	struct table table;
	struct tail last_words;
	struct watch_signals signals;
	struct watch_result result;
	uint64_t start_ns;
	int stdout_pipe[2], stderr_pipe[2];	/* -1 unless discarding */
};

static void fail(const char *what) __attribute__((noreturn));

static void fail(const char *what)
{
	fprintf(stderr, "tlbcost: %s: %s\n", what, strerror(errno));
	exit(EXIT_OWN_FAILURE);
}

static void misused(const char *hint) __attribute__((noreturn));

static void misused(const char *hint)
{
	fprintf(stderr, "tlbcost: hint: %s\n", hint);
	exit(EXIT_OWN_FAILURE);
}

static struct options parse_options(int argc, char **argv)
{
	static const struct option long_options[] = {
		{ "discard", no_argument, NULL, 'd' },
		{ "help", no_argument, NULL, 'h' },
		{ "output", required_argument, NULL, 'o' },
		{ "user", required_argument, NULL, 'u' },
		{ NULL, 0, NULL, 0 },
	};
	struct options options = { .output = "-" };
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
			options.output = optarg;
			break;
		case 'u':
			options.user = optarg;
			break;
		default:
			misused("tlbcost-run --help lists the options");
		}
	}
	if (!argv[optind]) {
		fputs("tlbcost: nothing to run: no COMMAND was given\n", stderr);
		misused("tlbcost-run [--output FILE] -- COMMAND [ARG...]");
	}
	options.argv = argv + optind;
	return options;
}

/*
 * Hold closed standard descriptors with ones that close themselves in the
 * program: else the table would get number 1 or 2, and messages end up in it.
 */
static void hold_standard_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", O_RDWR | O_CLOEXEC) != fd)
			fail("cannot open /dev/null");
}

static void open_output(struct run *run, const struct options *options)
{
	struct stat status;

	/* The table is renamed into place, and must not replace a device. */
	if (strcmp(options->output, "-") != 0 &&
	    stat(options->output, &status) == 0 && !S_ISREG(status.st_mode)) {
		errno = EEXIST;
		fail(options->output);
	}
	if (table_open(&run->table, options->output, "run", 1) < 0)
		fail(options->output);
	table_columns(&run->table, columns);
	/*
	 * Find out that it cannot be written before the program runs, not
	 * after.  On standard output it waits for the program's own to end.
	 */
	if (run->table.path && fflush(run->table.file) != 0) {
		int error = errno;

		table_discard(&run->table);
		errno = error;
		fail(options->output);
	}
}

static void open_pipes(struct run *run, int discard)
{
	run->stdout_pipe[0] = run->stdout_pipe[1] = -1;
	run->stderr_pipe[0] = run->stderr_pipe[1] = -1;
	if (discard && (pipe2(run->stdout_pipe, O_CLOEXEC) < 0 ||
			pipe2(run->stderr_pipe, O_CLOEXEC) < 0)) {
		int error = errno;

		table_discard(&run->table);
		errno = error;
		fail("cannot make a pipe");
	}
}

static void close_program_ends(const struct run *run)
{
	if (run->stdout_pipe[1] >= 0)
		close(run->stdout_pipe[1]);
	if (run->stderr_pipe[1] >= 0)
		close(run->stderr_pipe[1]);
}

static uint64_t timeval_ns(struct timeval time)
{
	return (uint64_t)time.tv_sec * 1000000000u +
	       (uint64_t)time.tv_usec * 1000u;
}

static void write_result(struct table *table, uint64_t start_ns,
			 const struct watch_result *result)
{
	const struct rusage *usage = &result->usage;

	table_count(table, result->end_ns - start_ns);
	table_count(table, timeval_ns(usage->ru_utime));
	table_count(table, timeval_ns(usage->ru_stime));
	table_count(table, (uint64_t)usage->ru_minflt);
	table_count(table, (uint64_t)usage->ru_majflt);
	table_count(table, (uint64_t)usage->ru_maxrss * 1024u);
	if (WIFEXITED(result->status)) {
		table_count(table, (uint64_t)WEXITSTATUS(result->status));
		table_na(table);
	} else {
		table_na(table);
		table_count(table, (uint64_t)WTERMSIG(result->status));
	}
	table_na(table);
}

static void write_not_started(struct table *table, int error)
{
	for (int i = 0; i < 8; i++)
		table_na(table);
	table_count(table, (uint64_t)error);
}

static void close_output(struct run *run, const struct options *options)
{
	char *words;

	/* Before the table, so that a table that exists has all beside it. */
	if (options->discard && strcmp(options->output, "-") != 0) {
		if (asprintf(&words, "%s.stderr", options->output) < 0 ||
		    tail_save(&run->last_words, words) < 0) {
			int error = errno;

			table_discard(&run->table);
			errno = error;
			fail("cannot save the program's standard error");
		}
		free(words);
	}
	if (table_close(&run->table) < 0)
		fail(options->output);
}

static int run_program(struct run *run, const struct options *options,
		       const struct user *user)
{
	struct child_plan plan = {
		.argv = options->argv,
		.user = user,
		.stdout_fd = run->stdout_pipe[1],
		.stderr_fd = run->stderr_pipe[1],
		.mask = &run->signals.mask,
		.on_child = &run->signals.on_child,
	};
	enum child_failure failure;
	pid_t pid;
	int error;

	run->start_ns = watch_now_ns();
	if (child_start(&plan, &pid, &failure) < 0) {
		error = errno;
		if (failure == CHILD_NOT_EXECUTED) {
			write_not_started(&run->table, error);
			return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
		}
		table_discard(&run->table);
		errno = error;
		fail("cannot prepare the program's process");
	}
	close_program_ends(run);
	if (watch_program(&run->signals, pid, run->stdout_pipe[0],
			  run->stderr_pipe[0], &run->last_words, &run->result) < 0) {
		error = errno;
		table_discard(&run->table);
		errno = error;
		fail("cannot wait for the program");
	}
	write_result(&run->table, run->start_ns, &run->result);
	if (WIFEXITED(run->result.status))
		return WEXITSTATUS(run->result.status);
	return EXIT_SIGNAL + WTERMSIG(run->result.status);
}

int main(int argc, char **argv)
{
	struct options options = parse_options(argc, argv);
	struct run run = { 0 };
	struct user user;
	int code;

	hold_standard_descriptors();
	if (options.user && user_parse(&user, options.user) < 0)
		fail(options.user);
	/* Before the table: a signal must not leave half of it behind. */
	if (watch_prepare(&run.signals) < 0)
		fail("cannot take hold of the signals");
	open_output(&run, &options);
	open_pipes(&run, options.discard);
	code = run_program(&run, &options, options.user ? &user : NULL);
	close_output(&run, &options);
	if (options.user)
		user_free(&user);
	return code;
}
