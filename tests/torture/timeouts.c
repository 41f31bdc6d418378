/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Do calls that wait for a time end with that time, and as they should? */
#include <errno.h>
#include <fcntl.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "torture.h"

#define WAIT_MS 40
#define WAIT_NS (WAIT_MS * 1000000l)
/* Far beyond what a busy machine needs, and an interrupted wait that begins again. */
#define LATE_NS 20000000000ull

static const struct timespec wait_time = { .tv_nsec = WAIT_NS };

/* Timeouts of sockets are counted in ticks of the kernel: they may end one of them too early. */
#define TICK_NS 10000000l

/* The result of a call that began at `begun`, waited so long, and ended with `got`. */
static const char *waited(uint64_t begun, long least_ns, long got, long expected, int error)
{
	const char *wrong = torture_result(got, expected, error);
	uint64_t took = torture_now_ns() - begun;

	if (wrong)
		return wrong;
	if (took < (uint64_t)least_ns)
		return torture_wrong("ended after %llu ns of %ld", (unsigned long long)took,
				     WAIT_NS);
	return took < LATE_NS ? NULL : torture_wrong("took %llu ns", (unsigned long long)took);
}

static const char *timed(uint64_t begun, long got, long expected, int error)
{
	return waited(begun, WAIT_NS, got, expected, error);
}

static const char *timed_by_ticks(uint64_t begun, long got, long expected, int error)
{
	return waited(begun, WAIT_NS - TICK_NS, got, expected, error);
}

static struct timespec deadline(clockid_t clock)
{
	struct timespec at;

	clock_gettime(clock, &at);
	at.tv_nsec += WAIT_NS;
	if (at.tv_nsec >= 1000000000) {
		at.tv_nsec -= 1000000000;
		at.tv_sec++;
	}
	return at;
}

/* A call that waits, and how it ends; `check` says by which clock. */
#define WAITS(name, check, call, expected, error)                \
	static const char *name(void *state)                     \
	{                                                        \
		uint64_t begun = torture_now_ns();               \
                                                                 \
		(void)state;                                     \
		return check(begun, call, expected, error);      \
	}

#define UNTIL(clock) ((struct timespec[]){ deadline(clock) })

WAITS(sleeps, timed, nanosleep(&wait_time, NULL), 0, 0)
WAITS(sleeps_on_clock, timed,
      clock_nanosleep(CLOCK_BOOTTIME, 0, &wait_time, &(struct timespec){ 0 }), 0, 0)
WAITS(sleeps_until, timed,
      clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, UNTIL(CLOCK_MONOTONIC), NULL), 0, 0)
WAITS(polls, timed, poll(NULL, 0, WAIT_MS), 0, 0)

static const char *polls_with_mask(void *state)
{
	uint64_t begun = torture_now_ns();
	struct timespec left = wait_time;
	sigset_t mask, after;
	const char *wrong;

	(void)state;
	sigfillset(&mask);
	/* The call itself: it writes what is left of the time. */
	wrong = timed(begun, syscall(SYS_ppoll, NULL, 0, &left, &mask, 8), 0, 0);
	pthread_sigmask(SIG_BLOCK, NULL, &after);
	if (!wrong && sigismember(&after, SIGUSR1))
		wrong = "the mask stayed";
	return wrong ? wrong : left.tv_sec || left.tv_nsec ? "time was left" : NULL;
}

static const char *selects(void *state)
{
	uint64_t begun = torture_now_ns();
	struct timeval left = { .tv_usec = WAIT_MS * 1000 };
	const char *wrong;

	(void)state;
	wrong = timed(begun, select(0, NULL, NULL, NULL, &left), 0, 0);
	return wrong ? wrong : left.tv_sec || left.tv_usec ? "time was left" : NULL;
}

static const char *selects_with_mask(void *state)
{
	uint64_t begun = torture_now_ns();
	sigset_t mask;

	(void)state;
	sigfillset(&mask);
	return timed(begun, pselect(0, NULL, NULL, NULL, &wait_time, &mask), 0, 0);
}

static void *descriptor(int file)
{
	int *kept = malloc(sizeof(*kept));

	if (!kept || file < 0)
		return NULL;
	*kept = file;
	return kept;
}

static void *make_epoll(void)
{
	return descriptor(epoll_create1(EPOLL_CLOEXEC));
}

WAITS(waits_for_events, timed, epoll_wait(*(int *)state, &(struct epoll_event){ 0 }, 1, WAIT_MS), 0, 0)
WAITS(waits_for_events_to_the_ns, timed,
      epoll_pwait2(*(int *)state, &(struct epoll_event){ 0 }, 1, &wait_time, NULL), 0, 0)
WAITS(waits_on_futex, timed,
      syscall(SYS_futex, &(uint32_t){ 0 }, FUTEX_WAIT_PRIVATE, 0, &wait_time, NULL, 0), -1, ETIMEDOUT)
WAITS(waits_on_futex_until, timed,
      syscall(SYS_futex, &(uint32_t){ 0 }, FUTEX_WAIT_BITSET, 0, UNTIL(CLOCK_MONOTONIC), NULL,
	      FUTEX_BITSET_MATCH_ANY), -1, ETIMEDOUT)

static const char *waits_on_futexes(void *state)
{
	uint64_t begun = torture_now_ns();
	struct timespec at = deadline(CLOCK_MONOTONIC);
	uint32_t words[2] = { 0 };
	struct futex_waitv each[2] = {
		{ .uaddr = (uintptr_t)&words[0], .flags = FUTEX_32 },
		{ .uaddr = (uintptr_t)&words[1], .flags = FUTEX_32 | FUTEX_PRIVATE_FLAG },
	};
	long got = syscall(SYS_futex_waitv, each, 2, 0, &at, CLOCK_MONOTONIC);

	(void)state;
	return got == -1 && errno == ENOSYS ? NULL : timed(begun, got, -1, ETIMEDOUT);
}

/* Held by the main thread for ever. */
static uint32_t held_futex;

static void *hold_futex(void)
{
	return syscall(SYS_futex, &held_futex, FUTEX_LOCK_PI_PRIVATE, 0, NULL, NULL,
		       0) ? NULL : &held_futex;
}

WAITS(waits_for_pi_lock, timed,
      syscall(SYS_futex, state, FUTEX_LOCK_PI_PRIVATE, 0, UNTIL(CLOCK_REALTIME), NULL, 0), -1, ETIMEDOUT)

static void *make_semaphore(void)
{
	return descriptor(semget(IPC_PRIVATE, 1, 0600));
}

static void remove_semaphore(void *state)
{
	semctl(*(int *)state, 0, IPC_RMID);
}

WAITS(waits_for_semaphore, timed,
      semtimedop(*(int *)state, &(struct sembuf){ .sem_op = -1 }, 1, &wait_time), -1, EAGAIN)

static const char *waits_for_signal(void *state)
{
	uint64_t begun = torture_now_ns();
	sigset_t set;

	(void)state;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return timed(begun, sigtimedwait(&set, NULL, &wait_time), -1, EAGAIN);
}

static void *make_queue(void)
{
	struct mq_attr attributes = { .mq_maxmsg = 1, .mq_msgsize = 8 };
	char name[64];
	mqd_t queue;

	snprintf(name, sizeof(name), "/torture-%d", getpid());
	queue = mq_open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600, &attributes);
	if (queue >= 0)
		mq_unlink(name);
	return descriptor(queue);
}

WAITS(receives_from_queue, timed,
      mq_timedreceive(*(int *)state, (char[8]){ 0 }, 8, NULL, UNTIL(CLOCK_REALTIME)), -1, ETIMEDOUT)

static void set_timeout(int socket)
{
	struct timeval timeout = { .tv_usec = WAIT_MS * 1000 };

	setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
}

static void *make_socket(void)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair))
		return NULL;
	set_timeout(pair[0]);
	return descriptor(pair[0]);
}

static void *make_full_socket(void)
{
	static const char page[4096];
	int *made = make_socket();

	while (made && send(*made, page, sizeof(page), MSG_DONTWAIT) > 0)
		;
	return made;
}

static void *make_listener(void)
{
	struct sockaddr_in here = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (made < 0 || bind(made, (struct sockaddr *)&here, sizeof(here)) || listen(made, 1))
		return NULL;
	set_timeout(made);
	return descriptor(made);
}

WAITS(receives, timed_by_ticks, recv(*(int *)state, &(char){ 0 }, 1, 0), -1, EAGAIN)
WAITS(sends, timed_by_ticks, send(*(int *)state, "x", 1, 0), -1, EAGAIN)
WAITS(accepts, timed_by_ticks, accept4(*(int *)state, NULL, NULL, SOCK_CLOEXEC), -1, EAGAIN)

static const char *receives_message(void *state)
{
	uint64_t begun = torture_now_ns();
	char byte;
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };

	return timed_by_ticks(begun, recvmsg(*(int *)state, &message, 0), -1, EAGAIN);
}

static void *make_aio(void)
{
	aio_context_t *context = calloc(1, sizeof(*context));

	return context && !syscall(SYS_io_setup, 1, context) ? context : NULL;
}

static void destroy_aio(void *state)
{
	syscall(SYS_io_destroy, *(aio_context_t *)state);
}

WAITS(waits_for_aio, timed,
      syscall(SYS_io_getevents, *(aio_context_t *)state, 1, 1, &(struct io_event){ 0 },
	      (struct timespec[]){ wait_time }), 0, 0)

static const struct torture_case cases[] = {
	{ .name = "nanosleep", .once = sleeps },
	{ .name = "clock_nanosleep, relative", .once = sleeps_on_clock },
	{ .name = "clock_nanosleep, absolute", .once = sleeps_until },
	{ .name = "poll", .once = polls },
	{ .name = "ppoll", .once = polls_with_mask },
	{ .name = "select", .once = selects },
	{ .name = "pselect", .once = selects_with_mask },
	{ "epoll_wait", make_epoll, waits_for_events, NULL, NULL },
	{ "epoll_pwait2", make_epoll, waits_for_events_to_the_ns, NULL, NULL },
	{ .name = "futex wait, relative", .once = waits_on_futex },
	{ .name = "futex wait, absolute", .once = waits_on_futex_until },
	{ .name = "futex_waitv", .once = waits_on_futexes },
	{ "futex lock with priority inheritance", hold_futex, waits_for_pi_lock, NULL, NULL },
	{ "semtimedop", make_semaphore, waits_for_semaphore, NULL, remove_semaphore },
	{ .name = "sigtimedwait", .once = waits_for_signal },
	{ "mq_timedreceive", make_queue, receives_from_queue, NULL, NULL },
	{ "recv", make_socket, receives, NULL, NULL },
	{ "recvmsg", make_socket, receives_message, NULL, NULL },
	{ "send", make_full_socket, sends, NULL, NULL },
	{ "accept", make_listener, accepts, NULL, NULL },
	{ "io_getevents", make_aio, waits_for_aio, NULL, destroy_aio },
};

int main(void)
{
	struct account *account = account_begin(true);
	int failed = torture_run(cases, sizeof(cases) / sizeof(*cases));

	torture_close_all();
	return failed + account_end(account) ? 1 : 0;
}
