/* SPDX-License-Identifier: GPL-2.0-or-later */
/* How is a program run from start to end, with a table of what the run cost? */
#ifndef TLBCOST_LAUNCH_PROGRAM_H
#define TLBCOST_LAUNCH_PROGRAM_H

#include <stdint.h>
#include <sys/resource.h>

#include "child.h"
#include "table.h"
#include "tail.h"
#include "user.h"
#include "watch.h"

/* Exit codes of a tool that runs a program, besides the program's own. */
enum { EXIT_OWN_FAILURE = 125, EXIT_NOT_EXECUTABLE, EXIT_NOT_FOUND, EXIT_SIGNAL };

struct program_options {
	char *const *argv;	/* NULL: there is no program, others are watched */
	const char *user;	/* "UID:GID"; NULL: as we are */
	const char *table;	/* of kind run; "-": standard output; NULL: none */
	int discard;		/* drop what it prints; the end of stderr to TABLE.stderr */
	const struct rlimit *files;	/* its RLIMIT_NOFILE; NULL: ours */
	int traced;		/* by children of ours */
};

/* What a tool does besides running the program; all may be NULL. */
struct program_hooks {
	int (*attach)(pid_t pid, void *context);	/* see child.h */
	void *context;
	const struct watch_hook *during;
};

/* A run.  `failed` and `result` are for reading, the others are private. */
struct program {
	const char *failed;	/* what failed, for a message: a path, or a phrase */
	struct watch_result result;	/* of a program that ran */
	uint64_t start_ns;	/* CLOCK_MONOTONIC when the program was let go */
	uint64_t before_exec_ns;	/* from the fork until the process was the program */
	int started;		/* 0: execve() refused it */
	struct program_options options;
	const struct program_hooks *hooks;
	struct table table;
	struct tail last_words;
	struct watch_signals signals;
	struct user_account user;
	int stdout_pipe[2], stderr_pipe[2];	/* -1 unless discarding */
};

/*
 * Hold closed standard descriptors with ones that close themselves in the
 * program: else a table would get number 1 or 2, and messages end up in it.
 * Before any file is opened.  Returns 0, or -1 with errno.
 */
int program_hold_descriptors(void);

/*
 * Take hold of the signals, find out whether the table can be written, and
 * make the pipes.  Returns 0; or -1 with errno and ->failed, and nothing is left.
 */
int program_open(struct program *program, const struct program_options *options);

/*
 * Run the program to its end.  Returns the exit code to pass on: its own, or
 * 128 + the signal that killed it, or 126 or 127 if it could not be started;
 * or -1 with errno and ->failed, and then no program is left and the table is
 * given up.
 */
int program_run(struct program *program, const struct program_hooks *hooks);

/* Without a program: watch_others(), with its times in start_ns and result.end_ns. */
int program_watch(struct program *program, int end_fd, const struct watch_hook *hook);

/*
 * Write the table of the run and what is kept of standard error.  Returns 0;
 * or -1 with errno and ->failed.  Nothing to be done if there is no table.
 */
int program_close(struct program *program);

/* Give the table up: nothing is left of it.  Safe after program_close(). */
void program_discard(struct program *program);

#endif
