/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is what a program closes closed, at once, though its copies live on? */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "torture.h"

/* A copy closes what it got within this time; it is held for longer. */
#define SOON_MS 500

/* The other end of what was closed hears of it. */
static const char *expect_end(int file)
{
	struct pollfd each = { .fd = file, .events = POLLIN };
	const char *wrong = torture_result(poll(&each, 1, SOON_MS), 1, 0);
	char byte;

	return wrong ? torture_wrong("no end after %d ms: %s", SOON_MS, wrong) :
		torture_result(read(file, &byte, 1), 0, 0);
}

/* Of two ends that were made if `rc` says so, one is closed. */
static const char *end_comes(int rc, const int ends[2])
{
	const char *wrong;

	if (rc)
		return torture_result(-1, 0, 0);
	torture_spin(1000000);
	close(ends[1]);
	wrong = expect_end(ends[0]);
	close(ends[0]);
	return wrong;
}

static const char *closes_pipe(void *state)
{
	int ends[2];

	(void)state;
	return end_comes(pipe2(ends, O_CLOEXEC), ends);
}

static const char *closes_reader(void *state)
{
	uint64_t end = torture_now_ns() + SOON_MS * 1000000ull;
	int ends[2];
	ssize_t got;

	(void)state;
	if (pipe2(ends, O_CLOEXEC))
		return torture_result(-1, 0, 0);
	torture_spin(1000000);
	close(ends[0]);
	do
		got = write(ends[1], "x", 1);
	while (got == 1 && torture_now_ns() < end);
	const char *wrong = torture_result(got, -1, EPIPE);
	close(ends[1]);
	return wrong;
}

static const char *closes_socket(void *state)
{
	int ends[2];

	(void)state;
	return end_comes(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), ends);
}

/* The same port again: nobody else may listen on it still. */
static const char *listens_again(void *state)
{
	struct sockaddr_in here = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	uint64_t end = torture_now_ns() + SOON_MS * 1000000ull;
	socklen_t length = sizeof(here);
	int first = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), second, got;

	(void)state;
	if (bind(first, (struct sockaddr *)&here, sizeof(here)) || listen(first, 1) ||
	    getsockname(first, (struct sockaddr *)&here, &length))
		return torture_result(-1, 0, 0);
	torture_spin(1000000);
	close(first);
	second = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	do
		got = bind(second, (struct sockaddr *)&here, sizeof(here));
	while (got && torture_now_ns() < end);
	const char *wrong = torture_result(got, 0, 0);
	close(second);
	return wrong;
}

static const char *closes_locked(void *state)
{
	char path[] = "/tmp/torture-XXXXXX";
	uint64_t end = torture_now_ns() + SOON_MS * 1000000ull;
	int first = mkostemp(path, O_CLOEXEC), second = open(path, O_RDWR | O_CLOEXEC), got;

	(void)state;
	unlink(path);
	flock(first, LOCK_EX);
	torture_spin(1000000);
	close(first);
	do
		got = flock(second, LOCK_EX | LOCK_NB);
	while (got && torture_now_ns() < end);
	const char *wrong = torture_result(got, 0, 0);
	close(second);
	return wrong;
}

/* What the copy writes is its own, also in memory of a file. */
static const char *maps_file(void *state)
{
	int file = memfd_create("torture", MFD_CLOEXEC);
	unsigned char read_back[4096], *memory;
	const char *wrong = NULL;

	(void)state;
	if (file < 0 || ftruncate(file, 4096))
		return torture_result(-1, 0, 0);
	memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	for (unsigned round = 1; !wrong && round < 200; round++) {
		for (unsigned i = 0; i < 4096; i++)
			memory[i]++;
		wrong = torture_result(pread(file, read_back, 4096, 0), 4096, 0);
		for (unsigned i = 0; !wrong && i < 4096; i++)
			if (read_back[i] != (unsigned char)round)
				wrong = torture_wrong("byte %u is %u after %u rounds", i,
						      read_back[i], round);
	}
	munmap(memory, 4096);
	close(file);
	return wrong;
}

/* A child's output through two filters, whole. */
static const char *pipes_through(void *state)
{
	unsigned long sum = 0, number, lines = 0;
	FILE *shell = popen("seq 1 30000 | cat | sed 's/$/ x/' | cut -d' ' -f1", "re");

	(void)state;
	while (shell && fscanf(shell, "%lu", &number) == 1) {
		sum += number;
		lines++;
	}
	if (!shell || pclose(shell))
		return torture_result(-1, 0, 0);
	return lines == 30000 && sum == 450015000ul ? NULL : torture_wrong("%lu lines, %lu", lines,
									   sum);
}

static const struct torture_case cases[] = {
	{ .name = "the writer's end of a pipe", .once = closes_pipe },
	{ .name = "the reader's end of a pipe", .once = closes_reader },
	{ .name = "a socket", .once = closes_socket },
	{ .name = "a listening socket", .once = listens_again },
	{ .name = "a locked file", .once = closes_locked },
	{ .name = "memory of a file", .once = maps_file },
	{ .name = "a pipeline", .once = pipes_through },
};

int main(void)
{
	struct account *account;
	int failed;

	signal(SIGPIPE, SIG_IGN);
	account = account_begin(false);
	failed = torture_run(cases, sizeof(cases) / sizeof(*cases));
	return failed + account_end(account) ? 1 : 0;
}
