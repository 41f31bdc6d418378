/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What do the counters of the hardware and the kernel show about a program? */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "complain.h"
#include "encode.h"
#include "options.h"
#include "program.h"
#include "session.h"

static int fail(const char *what)
{
	return complain(EXIT_OWN_FAILURE, what, strerror(errno), NULL);
}

/* The table of --encode: the encoding of each specification. */
static int write_encodings(const char *output, char *const *specs)
{
	struct encoding encoding;
	struct table table;
	char why[1024], key[32];

	if (table_open(&table, output, "encoding", 1) < 0)
		return fail(output);
	for (int i = 0; specs[i]; i++)
		if (encode_event(specs[i], &encoding, why, sizeof(why)) < 0) {
			snprintf(key, sizeof(key), "error_%d", i + 1);
			table_key(&table, key, "%s", why);
		}
	table_columns(&table, "spec type config config1 precise encoded_by error");
	for (int i = 0; specs[i]; i++) {
		int error = encode_event(specs[i], &encoding, why, sizeof(why)) < 0 ? errno : 0;

		table_word(&table, specs[i]);
		if (error) {
			for (int c = 0; c < 5; c++)
				table_na(&table);
			table_count(&table, (uint64_t)error);
			continue;
		}
		table_hexadecimal(&table, encoding.type);
		table_hexadecimal(&table, encoding.config);
		table_hexadecimal(&table, encoding.config1);
		table_count(&table, (uint64_t)encoding.precise);
		table_word(&table, encoded_by_name(encoding.by));
		table_na(&table);
	}
	return table_close(&table) < 0 ? fail(output) : 0;
}

/* Nothing could be opened: the table has all events, the message the first. */
static int tell_refusal(const struct session *session, const struct event *first)
{
	fprintf(stderr, "tlbcost: no event can be counted: %s: ", first->name);
	if (first->encode_error)
		fprintf(stderr, "%s\n", first->why ? first->why : strerror(first->encode_error));
	else
		fprintf(stderr, "%s (%s)\n", refusal_state(session->refused),
			strerror(session->refused));
	fputs("tlbcost: hint: tlbcost doctor shows what can be counted here\n", stderr);
	return EXIT_CANNOT_MEASURE;
}

/* Many threads or CPUs need many descriptors.  The program keeps its own limit. */
static void raise_file_limit(struct program_options *options, struct rlimit *before)
{
	struct rlimit most;

	if (getrlimit(RLIMIT_NOFILE, before) < 0)
		return;
	most = (struct rlimit){ .rlim_cur = before->rlim_max, .rlim_max = before->rlim_max };
	if (setrlimit(RLIMIT_NOFILE, &most) == 0)
		options->files = before;
}

/* Returns the exit code to pass on; or -1 with errno, and ->failed is set. */
static int count(struct session *session, struct program *program,
		 const struct count_options *options)
{
	const struct program_hooks hooks = {
		.attach = session_attach,
		.context = session,
		.during = session_hook(session),
	};

	if (options->program.argv)
		return program_run(program, &hooks);
	if (session_attach(getpid(), session) < 0)
		return -1;
	if (options->scope == SCOPE_PROBE)
		session_exercise();
	else if (program_watch(program, session->end_fd, hooks.during) < 0)
		return -1;
	return 0;
}

/* Write both tables, or none.  Returns the exit code. */
static int finish(struct session *session, struct program *program,
		  const struct count_options *options, int code)
{
	int error = errno;

	if (code < 0 && !session->refused) {
		session_discard(session);
		program_discard(program);
		errno = error;
		return fail(session->failed ? session->failed : program->failed);
	}
	if (session_close(session, program) < 0) {
		error = errno;
		program_discard(program);
		errno = error;
		return fail(session->failed);
	}
	if (session->refused)
		return options->quiet ? EXIT_CANNOT_MEASURE
				      : tell_refusal(session, &options->events[0]);
	if (program_close(program) < 0) {
		error = errno;
		if (strcmp(options->output, "-") != 0)
			unlink(options->output);
		errno = error;
		return fail(program->failed);
	}
	return code;
}

int main(int argc, char **argv)
{
	struct count_options options;
	struct session session;
	struct program program;
	struct rlimit files;
	int code, error;

	if (program_hold_descriptors() < 0)
		return fail("cannot open /dev/null");
	count_options_read(&options, argc, argv);
	if (options.specs)
		return write_encodings(options.output, options.specs);
	raise_file_limit(&options.program, &files);
	/* Before any table: a signal must not leave an incomplete one. */
	if (program_open(&program, &options.program) < 0)
		return fail(program.failed);
	if (session_open(&session, &options) < 0) {
		error = errno;
		program_discard(&program);
		errno = error;
		return fail(session.failed);
	}
	code = finish(&session, &program, &options, count(&session, &program, &options));
	count_options_free(&options);
	return code;
}
