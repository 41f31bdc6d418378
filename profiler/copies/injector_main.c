/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Copies threads of running programs on request: see injector.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "copy_request.h"
#include "held_threads.h"
#include "injector.h"
#include "thread_copy.h"
#include "thread_stop.h"
#include "tracee.h"

/* Only the kernel and root can end it between a stop and the return of the registers. */
static void protect(void)
{
	sigset_t all;
	int fd;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	setsid();
	/* Where they are allowed: useful, but not required. */
	mlockall(MCL_CURRENT | MCL_FUTURE);
	setpriority(PRIO_PROCESS, 0, -10);
	fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, "-1000", 5) < 0)
		errno = 0;
	if (fd >= 0)
		close(fd);
}

/* It keeps no file of its starter's open: no pipe waits for its end. */
static int keep_socket_only(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null < 0)
		return -1;
	for (int fd = 0; fd < 3; fd++)
		if (null != fd && dup2(null, fd) < 0)
			return -1;
	syscall(SYS_close_range, INJECTOR_SOCKET + 1, ~0u, 0);
	return fcntl(INJECTOR_SOCKET, F_SETFD, FD_CLOEXEC);
}

static void release_late(void)
{
	thread_stop_release_late();
}

static void on_news(int signal)
{
	(void)signal;
}

/* Wait for a request; release threads that stop late. */
static void wait_for_request(void)
{
	struct pollfd socket = { .fd = INJECTOR_SOCKET, .events = POLLIN };
	const struct timespec soon = { 0, 20000000 };
	sigset_t all_but_news;

	sigfillset(&all_but_news);
	sigdelset(&all_but_news, SIGCHLD);
	for (;;) {
		const bool late = thread_stop_release_late();
		const bool held = held_threads_expire();

		if (ppoll(&socket, 1, late || held ? &soon : NULL, &all_but_news) > 0)
			return;
	}
}

int main(void)
{
	struct sigaction news = { .sa_handler = on_news };
	struct injector_request request;
	struct injector_answer answer;
	int recording, rc = 0;

	if (keep_socket_only() < 0)
		return 125;
	protect();
	sigaction(SIGCHLD, &news, NULL);
	tracee_look_at_others(release_late);
	while (rc == 0) {
		wait_for_request();
		if (recv(INJECTOR_SOCKET, &request, sizeof(request), 0) != sizeof(request))
			break;
		copy_request_serve(&request, &answer, &recording);
		rc = injector_reply(INJECTOR_SOCKET, &answer, recording);
		if (recording >= 0)
			close(recording);
	}
	/* The requester is gone: no tracer takes the copies, and they live until their alarm. */
	for (uint32_t i = 0; rc < 0 && i < answer.copies; i++)
		thread_copy_kill(answer.copy[i].pid);
	held_threads_release();
	/* Its exit releases the threads that it still traces. */
	return 0;
}
