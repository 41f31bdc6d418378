/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"

static const char columns[] =
	"wall_ns user_ns system_ns minor_faults major_faults max_rss_bytes "
	"waited_ns exit_code signal exec_errno";

static int fail(struct program *program, const char *what)
{
	int error = errno;

	program->failed = what;
	program_discard(program);
	errno = error;
	return -1;
}

int program_hold_descriptors(void)
{
	for (int fd = 0; fd <= 2; fd++)
		if (fcntl(fd, F_GETFD) < 0 &&
		    open("/dev/null", O_RDWR | O_CLOEXEC) != fd)
			return -1;
	return 0;
}

static int open_table(struct program *program)
{
	const char *path = program->options.table;
	struct stat status;

	if (!path)
		return 0;
	/* The table is renamed into place, and must not replace a device. */
	if (strcmp(path, "-") != 0 && stat(path, &status) == 0 &&
	    !S_ISREG(status.st_mode)) {
		errno = EEXIST;
		return -1;
	}
	if (table_open(&program->table, path, "run", 2) < 0)
		return -1;
	table_columns(&program->table, columns);
	/*
	 * Find out that it cannot be written before the program runs, not
	 * after.  On standard output it waits for the program's own to end.
	 */
	return program->table.path ? table_flush(&program->table) : 0;
}

int program_open(struct program *program, const struct program_options *options)
{
	memset(program, 0, sizeof(*program));
	program->options = *options;
	for (int i = 0; i < 2; i++)
		program->stdout_pipe[i] = program->stderr_pipe[i] = -1;
	if (options->user && user_parse(&program->user, options->user) < 0)
		return fail(program, options->user);
	/* Before the table: a signal must not leave half of it behind. */
	if (watch_prepare(&program->signals) < 0)
		return fail(program, "cannot take hold of the signals");
	if (open_table(program) < 0)
		return fail(program, options->table);
	if (options->discard && (pipe2(program->stdout_pipe, O_CLOEXEC) < 0 ||
				 pipe2(program->stderr_pipe, O_CLOEXEC) < 0))
		return fail(program, "cannot make a pipe");
	return 0;
}

/* The clock starts when all that watches the program is there. */
static int attach(pid_t pid, void *context)
{
	struct program *program = context;

	if (program->hooks->attach(pid, program->hooks->context) < 0)
		return -1;
	program->start_ns = clock_ns();
	return 0;
}

static void close_program_ends(const struct program *program)
{
	if (program->stdout_pipe[1] >= 0)
		close(program->stdout_pipe[1]);
	if (program->stderr_pipe[1] >= 0)
		close(program->stderr_pipe[1]);
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
	if (result->waited_known)
		table_count(table, result->waited_ns);
	else
		table_na(table);
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
	for (int i = 0; i < 9; i++)
		table_na(table);
	table_count(table, (uint64_t)error);
}

int program_run(struct program *program, const struct program_hooks *hooks)
{
	const struct program_options *options = &program->options;
	struct child_plan plan = {
		.argv = options->argv,
		.user = options->user ? &program->user : NULL,
		.stdout_fd = program->stdout_pipe[1],
		.stderr_fd = program->stderr_pipe[1],
		.mask = &program->signals.mask,
		.on_child = &program->signals.on_child,
		.files = options->files,
		.traced = options->traced,
		.attach = hooks && hooks->attach ? attach : NULL,
		.context = program,
	};
	const struct watch_result *result = &program->result;
	enum child_failure failure;
	uint64_t fork_ns;
	pid_t pid;
	int error;

	program->hooks = hooks;
	program->start_ns = fork_ns = clock_ns();
	if (child_start(&plan, &pid, &failure) < 0) {
		if (failure != CHILD_NOT_EXECUTED)
			return fail(program, "cannot prepare the program's process");
		error = errno;
		if (options->table)
			write_not_started(&program->table, error);
		return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
	}
	program->started = 1;
	program->before_exec_ns = clock_ns() - fork_ns;
	close_program_ends(program);
	if (watch_program(&program->signals, pid, program->stdout_pipe[0],
			  program->stderr_pipe[0], &program->last_words,
			  hooks ? hooks->during : NULL, &program->result) < 0)
		return fail(program, "cannot wait for the program");
	if (options->table)
		write_result(&program->table, program->start_ns, result);
	if (WIFEXITED(result->status))
		return WEXITSTATUS(result->status);
	return EXIT_SIGNAL + WTERMSIG(result->status);
}

int program_watch(struct program *program, int end_fd, const struct watch_hook *hook)
{
	program->start_ns = clock_ns();
	if (watch_others(&program->signals, end_fd, hook) < 0)
		return fail(program, "cannot wait for the end");
	program->result.end_ns = clock_ns();
	return 0;
}

int program_close(struct program *program)
{
	const struct program_options *options = &program->options;
	char *words = NULL;
	int rc = 0;

	if (!options->table)
		return 0;
	/* Before the table, so that a table that exists has everything with it. */
	if (options->discard && strcmp(options->table, "-") != 0) {
		if (asprintf(&words, "%s.stderr", options->table) < 0)
			words = NULL;
		rc = words ? tail_save(&program->last_words, words) : -1;
		free(words);
		if (rc < 0)
			return fail(program, "cannot save the program's standard error");
	}
	if (table_close(&program->table) < 0)
		return fail(program, options->table);
	user_free(&program->user);
	return 0;
}

void program_discard(struct program *program)
{
	table_discard(&program->table);
	user_free(&program->user);
}
