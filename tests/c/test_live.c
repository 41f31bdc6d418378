/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does a running process get huge pages, and notice nothing? */
#include "check.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/sem.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "live.h"
#include "reached.h"
#include "vma.h"

#define HUGE ((size_t)2 << 20)
#define SIZE (8 * HUGE)

enum wait_kind { IN_READ, IN_EPOLL, IN_NANOSLEEP, IN_SEMAPHORE, IN_LOOP, WAITS };

/* Exits with 0 if nothing but what it waits for ended its wait. */
static void wait_for_end(enum wait_kind kind, int input) __attribute__((noreturn));

static void wait_for_end(enum wait_kind kind, int input)
{
	struct timespec time = { 1, 500000000 }, left = { 0, 0 };
	struct sembuf down = { .sem_num = 0, .sem_op = -1, .sem_flg = 0 };
	struct timespec patience = { 1, 500000000 };
	struct epoll_event event = { .events = EPOLLIN };
	volatile unsigned long turns = 0;
	int set;
	char byte;

	switch (kind) {
	case IN_READ:
		_exit(read(input, &byte, 1) == 1 ? 0 : errno);
	case IN_EPOLL:
		set = epoll_create1(0);
		epoll_ctl(set, EPOLL_CTL_ADD, input, &event);
		_exit(epoll_wait(set, &event, 1, 60000) == 1 ? 0 : errno);
	case IN_NANOSLEEP:
		_exit(nanosleep(&time, &left) == 0 ? 0 : errno);
	case IN_SEMAPHORE:
		set = semget(IPC_PRIVATE, 1, 0600);
		/* It is to time out. */
		errno = 0;
		semtimedop(set, &down, 1, &patience);
		kind = errno == EAGAIN ? WAITS : IN_SEMAPHORE;
		semctl(set, 0, IPC_RMID);
		_exit(kind != WAITS);
	default:
		while (getppid() > 1 && turns < 3000000)
			turns++;
		_exit(0);
	}
}

static pid_t start(enum wait_kind kind, int *to_child)
{
	char *memory, byte;
	int channel[2], filled[2];
	pid_t pid;

	if (pipe(channel) < 0 || pipe(filled) < 0)
		return -1;
	memory = mmap(NULL, SIZE + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid = fork();
	if (pid == 0) {
		madvise(memory, SIZE + HUGE, MADV_NOHUGEPAGE);
		memset(memory, 1, SIZE + HUGE);
		close(channel[1]);
		if (write(filled[1], "", 1) != 1)
			_exit(1);
		wait_for_end(kind, channel[0]);
	}
	munmap(memory, SIZE + HUGE);
	CHECK_EQUAL(read(filled[0], &byte, 1), 1);
	close(filled[0]);
	close(filled[1]);
	close(channel[0]);
	*to_child = channel[1];
	return pid;
}

static int thp_is_possible(void)
{
	char mode[64] = "";
	FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "re");

	if (file) {
		if (!fgets(mode, sizeof(mode), file))
			mode[0] = '\0';
		fclose(file);
	}
	return mode[0] && !strstr(mode, "[never]");
}

TEST(waits_go_on)
{
	static const char *const names[] = { "read", "epoll_wait", "nanosleep", "semtimedop", "no call" };
	const struct timespec before = { 0, 200000000 };
	struct live_result result;
	const char *failed = "";
	int status, to_child = -1;

	/* One that has ended by itself reads no more. */
	signal(SIGPIPE, SIG_IGN);
	if (!thp_is_possible())
		CHECK_SKIP("needs transparent huge pages");
	for (unsigned kind = 0; kind < WAITS; kind++) {
		pid_t pid = start((enum wait_kind)kind, &to_child);

		nanosleep(&before, NULL);
		if (live_ask(pid, 1, HUGE, &result, &failed) < 0) {
			kill(pid, SIGKILL);
			waitpid(pid, &status, 0);
			CHECK_SKIP("this process may trace none");
		}
		CHECK(result.complete);
		CHECK(result.requests > 0);
		CHECK(result.huge_bytes >= result.huge_before_bytes + SIZE);
		if (write(to_child, "", 1) < 0)
			CHECK_EQUAL(kind >= IN_NANOSLEEP, 1);
		close(to_child);
		waitpid(pid, &status, 0);
		CHECK(WIFEXITED(status));
		CHECK_EQUAL(WEXITSTATUS(status), 0);
		if (!WIFEXITED(status) || WEXITSTATUS(status))
			printf("# in %s: status %#x\n", names[kind], (unsigned)status);
	}
}

/* Base pages that it has only read since it forked. */
TEST(one_huge_page_is_made_of_what_is_only_read)
{
	const uint64_t whole = 2 * HUGE;
	char *memory = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uint64_t start = ((uint64_t)(uintptr_t)memory + HUGE - 1) / HUGE * HUGE;
	uint64_t before = 0, after = 0, anonymous;
	const char *failed = "";
	int ready[2], status, rc;
	pid_t pid;
	char byte;

	CHECK(memory != MAP_FAILED && pipe(ready) == 0);
	if (!thp_is_possible())
		CHECK_SKIP("needs transparent huge pages");
	pid = fork();
	if (pid == 0) {
		const pid_t gone = (madvise(memory, whole, MADV_NOHUGEPAGE),
				    memset(memory, 7, whole), fork());

		if (gone == 0)
			_exit(0);
		waitpid(gone, NULL, 0);
		madvise(memory, whole, MADV_HUGEPAGE);
		if (write(ready[1], "", 1) == 1)
			pause();
		_exit(1);
	}
	CHECK_EQUAL(read(ready[0], &byte, 1), 1);
	CHECK_EQUAL(reached_of(pid, &anonymous, &before), 0);
	rc = live_collapse(pid, start, HUGE, &failed);
	CHECK_EQUAL(reached_of(pid, &anonymous, &after), 0);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	munmap(memory, whole);
	if (rc < 0 && (errno == EPERM || errno == EINVAL))
		CHECK_SKIP("this process may trace none, or the kernel makes no huge pages");
	CHECK_EQUAL(rc, 0);
	CHECK_EQUAL(after - before, HUGE);
}

TEST(one_that_is_gone_is_refused)
{
	struct live_result result;
	const char *failed = NULL;
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	CHECK_EQUAL(live_ask(pid, 1, HUGE, &result, &failed), -1);
	CHECK(failed != NULL);
}

TEST(lines_of_smaps_are_read)
{
	struct vma vma;

	CHECK_EQUAL(vma_parse("7ffc-7fff rw-p 00000000 00:00 0    [stack]\n", &vma), 1);
	CHECK(vma.stack && vma.writable && vma.anonymous && !vma.shared);
	CHECK_EQUAL(vma_parse("1000-3000 r-xp 00000000 08:01 17  /bin/a b\n", &vma), 1);
	CHECK(!vma.anonymous && !vma.writable);
	CHECK_EQUAL(vma_parse("1000-3000 rw-s 00000000 00:01 17  /dev/zero (deleted)\n", &vma), 1);
	CHECK(vma.shared);
	CHECK_EQUAL(vma.end, 0x3000);
	CHECK_EQUAL(vma_parse("Rss:                 4 kB\n", &vma), 0);
	CHECK_EQUAL(vma_parse("VmFlags: rd wr mr mw me ac\n", &vma), 0);
}

CHECK_MAIN
