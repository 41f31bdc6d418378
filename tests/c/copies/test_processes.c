/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is the CPU time of a program known, and which of its threads run? */
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "processes.h"

static bool no_copy(void *context, pid_t pid)
{
	(void)context;
	(void)pid;
	return false;
}

static pid_t excluded;

static bool is_excluded(void *context, pid_t pid)
{
	(void)context;
	return pid == excluded;
}

static void spin(void)
{
	for (volatile unsigned i = 0;; i++)
		;
}

/* It is on its way to pause(), and may have to wait for a CPU. */
static void await_sleep(pid_t pid)
{
	char path[32], state = 'R';

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	while (state == 'R' || state == 'D') {
		FILE *file = fopen(path, "re");

		CHECK(file != NULL);
		if (!file || fscanf(file, "%*d (%*[^)]) %c", &state) != 1)
			state = 'S';
		if (file)
			fclose(file);
	}
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

TEST(a_process_that_runs)
{
	struct processes processes = { .is_copy = no_copy };
	struct process *process;
	uint64_t random = 1;
	pid_t thread = 0, pid = fork();

	if (pid == 0)
		spin();
	CHECK_EQUAL(processes_open(&processes, pid), 0);
	for (int i = 0; i < 1000 && processes.cpu_ns < 5000000; i++) {
		usleep(1000);
		processes_look(&processes, false);
	}
	CHECK(processes.cpu_ns >= 5000000);
	thread = processes_draw(&processes, &random, &process);
	CHECK_EQUAL(thread, pid);
	CHECK(process == processes.all[0]);
	CHECK_EQUAL(processes.threads_seen, 1);
	end(pid);
	processes_look(&processes, false);
	CHECK(processes.all[0]->gone);
	CHECK_EQUAL(processes_draw(&processes, &random, &process), 0);
	processes_close(&processes);
}

TEST(a_process_that_sleeps)
{
	struct processes processes = { .is_copy = no_copy };
	struct process *process;
	uint64_t random = 1;
	pid_t pid = fork();

	if (pid == 0) {
		pause();
		_exit(1);
	}
	await_sleep(pid);
	CHECK_EQUAL(processes_open(&processes, pid), 0);
	CHECK_EQUAL(processes_draw(&processes, &random, &process), 0);
	CHECK(process == NULL);
	end(pid);
	processes_close(&processes);
}

/* A child that runs, and one that is a copy: only the first is the program's. */
TEST(children_and_copies)
{
	struct processes processes = { .children = true, .is_copy = is_excluded };
	struct process *process;
	uint64_t random = 1;
	int report[2];
	pid_t children[2], pid;

	CHECK_EQUAL(pipe(report), 0);
	pid = fork();
	if (pid == 0) {
		for (int i = 0; i < 2; i++) {
			children[i] = fork();
			if (children[i] == 0)
				spin();
		}
		if (write(report[1], children, sizeof(children)) < 0)
			_exit(1);
		pause();
		_exit(1);
	}
	CHECK_EQUAL(read(report[0], children, sizeof(children)), sizeof(children));
	excluded = children[1];
	CHECK_EQUAL(processes_open(&processes, pid), 0);
	CHECK_EQUAL(processes.count, 2);
	await_sleep(pid);
	for (int i = 0; i < 20; i++)
		CHECK_EQUAL(processes_draw(&processes, &random, &process), children[0]);
	end(children[0]);
	end(children[1]);
	end(pid);
	processes_close(&processes);
	close(report[0]);
	close(report[1]);
}

/* More than the kernel lists in one page. */
TEST(more_children_than_fit_in_a_page)
{
	enum { MANY = 1200 };
	struct processes processes = { .children = true, .is_copy = no_copy };
	int ready[2], hold[2];
	size_t made = 0;
	pid_t pid;
	char byte;

	CHECK(pipe(ready) == 0 && pipe(hold) == 0);
	pid = fork();
	if (pid == 0) {
		close(hold[1]);
		for (unsigned i = 0; i < MANY; i++) {
			const pid_t child = fork();

			if (child == 0)
				_exit(read(hold[0], &byte, 1) < 0);
			made += child > 0;
		}
		if (write(ready[1], &made, sizeof(made)) < 0 || read(hold[0], &byte, 1) < 0)
			_exit(1);
		_exit(0);
	}
	close(hold[0]);
	CHECK_EQUAL(read(ready[0], &made, sizeof(made)), sizeof(made));
	CHECK_EQUAL(processes_open(&processes, pid), 0);
	CHECK_EQUAL(processes.count, made + 1);
	close(hold[1]);
	waitpid(pid, NULL, 0);
	processes_close(&processes);
	close(ready[0]);
	close(ready[1]);
	if (made < MANY)
		CHECK_SKIP("this user may not start 1,200 processes");
}

static void *outlive(void *context)
{
	pause();
	return context;
}

TEST(the_first_thread_has_ended)
{
	struct process_status status = { .state = '?' };
	pthread_t thread;
	int ready[2];
	pid_t pid;
	char byte;

	CHECK_EQUAL(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		close(ready[0]);
		fcntl(ready[1], F_SETFD, 0);
		if (pthread_create(&thread, NULL, outlive, NULL) || write(ready[1], "", 1) != 1)
			_exit(1);
		pthread_exit(NULL);
	}
	CHECK_EQUAL(read(ready[0], &byte, 1), 1);
	do
		CHECK_EQUAL(process_status(pid, &status), 0);
	while (status.state == 'R' || status.state == 'D');
	CHECK_EQUAL(status.state, 'S');
	end(pid);
	close(ready[0]);
	close(ready[1]);
}

TEST(another_program_is_executed)
{
	struct process_status before, after;
	int hold[2];
	pid_t pid;
	char byte = 0;

	CHECK_EQUAL(pipe(hold), 0);
	pid = fork();
	if (pid == 0) {
		if (read(hold[0], &byte, 1) < 0)
			_exit(1);
		execlp("sleep", "sleep", "100", (char *)NULL);
		_exit(1);
	}
	CHECK_EQUAL(process_status(pid, &before), 0);
	CHECK(before.resident_bytes > 0);
	CHECK_EQUAL(write(hold[1], &byte, 1), 1);
	for (int i = 0; i < 1000; i++) {
		usleep(1000);
		if (process_status(pid, &after) == 0 && after.image != before.image)
			break;
	}
	CHECK(after.image != before.image);
	end(pid);
	CHECK_EQUAL(process_status(pid, &after), -1);
	close(hold[0]);
	close(hold[1]);
}

CHECK_MAIN
