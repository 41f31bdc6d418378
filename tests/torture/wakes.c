/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Do calls that wait for an event end with that event, exactly once for each? */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/msg.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "torture.h"

/* What a waiter and its waker share. */
struct shared {
	int waits, wakes;	/* descriptors, or the number of a queue */
	uint32_t word;
	uint32_t sent, seen;	/* events */
	pid_t thread;
	char path[64];
};

static struct shared *share(int waits, int wakes)
{
	struct shared *shared = calloc(1, sizeof(*shared));

	if (!shared || waits < 0)
		return NULL;
	shared->waits = waits;
	shared->wakes = wakes;
	return shared;
}

static void wake_by_write(void *state)
{
	struct shared *shared = state;
	unsigned char byte = (unsigned char)shared->sent++;

	if (write(shared->wakes, &byte, 1) != 1)
		perror("write");
}

/* Every byte comes once, and in order. */
static const char *expect_byte(struct shared *shared, long got, const unsigned char *came)
{
	const char *wrong = torture_result(got, 1, 0);

	if (!wrong && *came != (unsigned char)shared->seen)
		wrong = torture_wrong("byte %u came instead of %u", *came, shared->seen & 255);
	shared->seen++;
	return wrong;
}

static const char *reads(void *state)
{
	struct shared *shared = state;
	unsigned char byte = 0;

	return expect_byte(shared, read(shared->waits, &byte, 1), &byte);
}

static void *make_pipe(void)
{
	int ends[2];

	return pipe2(ends, O_CLOEXEC) ? NULL : share(ends[0], ends[1]);
}

static void *make_stream(void)
{
	int ends[2];

	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) ? NULL : share(ends[0],
										       ends[1]);
}

static const char *receives(void *state)
{
	struct shared *shared = state;
	unsigned char byte = 0;

	return expect_byte(shared, recv(shared->waits, &byte, 1, MSG_WAITALL), &byte);
}

static const char *polls(void *state)
{
	struct shared *shared = state;
	struct pollfd each = { .fd = shared->waits, .events = POLLIN };
	const char *wrong = torture_result(poll(&each, 1, -1), 1, 0);

	return wrong ? wrong : reads(state);
}

static const char *selects(void *state)
{
	struct shared *shared = state;
	const char *wrong;
	fd_set set;

	FD_ZERO(&set);
	FD_SET(shared->waits, &set);
	wrong = torture_result(select(shared->waits + 1, &set, NULL, NULL, NULL), 1, 0);
	return wrong ? wrong : reads(state);
}

static void *make_events(void)
{
	struct shared *shared = make_pipe();
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };

	if (!shared)
		return NULL;
	shared->word = (uint32_t)epoll_create1(EPOLL_CLOEXEC);
	return epoll_ctl((int)shared->word, EPOLL_CTL_ADD, shared->waits, &event) ? NULL : shared;
}

/* Edge-triggered: an event that is taken in vain does not come again. */
static const char *waits_for_edge(void *state)
{
	struct shared *shared = state;
	struct epoll_event event;
	const char *wrong = torture_result(epoll_wait((int)shared->word, &event, 1, -1), 1, 0);

	return wrong ? wrong : reads(state);
}

static void *make_eventfd(void)
{
	int file = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);

	return share(file, file);
}

static const char *reads_event(void *state)
{
	struct shared *shared = state;
	uint64_t value = 0;
	const char *wrong = torture_result(read(shared->waits, &value, sizeof(value)),
					   sizeof(value), 0);

	return wrong ? wrong : torture_result((long)value, 1, 0);
}

static void write_event(void *state)
{
	struct shared *shared = state;
	uint64_t one = 1;

	if (write(shared->wakes, &one, sizeof(one)) != sizeof(one))
		perror("eventfd");
}

static void *make_timer(void)
{
	return share(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC), -1);
}

/* Twenty times a millisecond: the clock says how many have passed. */
static const char *reads_timer(void *state)
{
	struct shared *shared = state;
	struct itimerspec every_ms = { { 0, 1000000 }, { 0, 1000000 } }, never = { 0 };
	uint64_t passed = 0, value = 0, begun = torture_now_ns(), least, most;
	const char *wrong = NULL;

	timerfd_settime(shared->waits, 0, &every_ms, NULL);
	while (!wrong && passed < 20) {
		wrong = torture_result(read(shared->waits, &value, sizeof(value)), sizeof(value),
				       0);
		least = value;
		passed += least;
	}
	most = (torture_now_ns() - begun) / 1000000;
	timerfd_settime(shared->waits, 0, &never, NULL);
	if (!wrong && passed > most)
		wrong = torture_wrong("%llu ms, the timer says %llu", (unsigned long long)most,
				      (unsigned long long)passed);
	return wrong;
}

static void queue_signal(void *state)
{
	struct shared *shared = state;
	siginfo_t info = { .si_code = SI_QUEUE };

	info.si_value.sival_int = (int)shared->sent++;
	info.si_pid = getpid();
	if (syscall(SYS_rt_tgsigqueueinfo, getpid(), shared->thread, SIGRTMIN + 3, &info))
		perror("rt_tgsigqueueinfo");
}

static void *make_plain(void)
{
	return share(0, 0);
}

static const char *waits_for_signal(void *state)
{
	struct shared *shared = state;
	siginfo_t info = { 0 };
	const char *wrong;
	sigset_t set;

	__atomic_store_n(&shared->thread, gettid(), __ATOMIC_SEQ_CST);
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 3);
	wrong = torture_result(sigwaitinfo(&set, &info), SIGRTMIN + 3, 0);
	if (!wrong && info.si_value.sival_int != (int)shared->seen)
		wrong = torture_wrong("signal %d instead of %u", info.si_value.sival_int,
				      shared->seen);
	shared->seen++;
	return wrong;
}

static _Thread_local volatile sig_atomic_t handled;

static void handle(int signal)
{
	(void)signal;
	handled++;
}

/* These end with EINTR for a signal, and for nothing else. */
static const char *suspends(void *state)
{
	struct shared *shared = state;
	const char *wrong;
	sigset_t most;

	__atomic_store_n(&shared->thread, gettid(), __ATOMIC_SEQ_CST);
	sigfillset(&most);
	sigdelset(&most, SIGUSR1);
	handled = 0;
	wrong = torture_result(sigsuspend(&most), -1, EINTR);
	return wrong ? wrong : torture_result(handled, 1, 0);
}

static void send_signal(void *state)
{
	struct shared *shared = state;

	syscall(SYS_tgkill, getpid(), shared->thread, SIGUSR1);
}

/* A signal that arrives at a call that is restarted, and at one that is not. */
static const char *reads_with_signal(void *state)
{
	struct shared *shared = state;
	unsigned char byte;
	const char *wrong;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	handled = 0;
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	__atomic_store_n(&shared->thread, gettid(), __ATOMIC_SEQ_CST);
	wrong = expect_byte(shared, read(shared->waits, &byte, 1), &byte);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	return wrong ? wrong : torture_result(handled, 1, 0);
}

static void signal_and_write(void *state)
{
	struct shared *shared = state;

	syscall(SYS_tgkill, getpid(), shared->thread, SIGUSR2);
	torture_sleep_ms(5);
	wake_by_write(state);
}

static void *make_watch(void)
{
	struct shared *shared = share(inotify_init1(IN_CLOEXEC), -1);

	if (!shared)
		return NULL;
	strcpy(shared->path, "/tmp/torture-XXXXXX");
	return mkdtemp(shared->path) && inotify_add_watch(shared->waits, shared->path,
							  IN_CREATE) > 0 ?
		shared : NULL;
}

static const char *reads_watch(void *state)
{
	struct shared *shared = state;
	union { struct inotify_event event; char bytes[512]; } info = { .bytes = { 0 } };
	ssize_t got = read(shared->waits, &info, sizeof(info));

	if (got < (ssize_t)sizeof(info.event))
		return torture_result(got, sizeof(info.event), 0);
	return strcmp(info.event.name, "made") ? torture_wrong("name %s", info.event.name) : NULL;
}

static void make_file(void *state)
{
	struct shared *shared = state;
	char path[80];

	snprintf(path, sizeof(path), "%s/made", shared->path);
	close(open(path, O_CREAT | O_CLOEXEC, 0600));
	unlink(path);
}

static void remove_watch(void *state)
{
	rmdir(((struct shared *)state)->path);
}

static const char *waits_on_futex(void *state)
{
	struct shared *shared = state;
	const char *wrong = NULL;

	while (!wrong && __atomic_load_n(&shared->word, __ATOMIC_SEQ_CST) == shared->seen) {
		long got = syscall(SYS_futex, &shared->word, FUTEX_WAIT, shared->seen, NULL, NULL,
				   0);

		if (got != -1 || errno != EAGAIN)
			wrong = torture_result(got, 0, 0);
	}
	shared->seen++;
	return wrong;
}

static void wake_futex(void *state)
{
	struct shared *shared = state;

	__atomic_add_fetch(&shared->word, 1, __ATOMIC_SEQ_CST);
	syscall(SYS_futex, &shared->word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void *make_semaphore(void)
{
	return share(semget(IPC_PRIVATE, 1, 0600), 0);
}

static const char *takes_semaphore(void *state)
{
	struct sembuf take = { .sem_op = -1 };

	return torture_result(semop(((struct shared *)state)->waits, &take, 1), 0, 0);
}

static void give_semaphore(void *state)
{
	struct sembuf give = { .sem_op = 1 };

	semop(((struct shared *)state)->waits, &give, 1);
}

static void remove_semaphore(void *state)
{
	semctl(((struct shared *)state)->waits, 0, IPC_RMID);
}

struct numbered { long type; uint32_t number; };

static void *make_messages(void)
{
	return share(msgget(IPC_PRIVATE, 0600), 0);
}

static const char *receives_message(void *state)
{
	struct shared *shared = state;
	struct numbered message = { 0 };
	const char *wrong = torture_result(msgrcv(shared->waits, &message, 4, 0, 0), 4, 0);

	return wrong ? wrong : torture_result(message.number, shared->seen++, 0);
}

static void send_message(void *state)
{
	struct shared *shared = state;
	struct numbered message = { 1, shared->sent++ };

	msgsnd(shared->waits, &message, 4, 0);
}

static void remove_messages(void *state)
{
	msgctl(((struct shared *)state)->waits, IPC_RMID, NULL);
}

/* Two open files of one: a lock of the one keeps the other out. */
static void *make_locked_file(void)
{
	char path[] = "/tmp/torture-XXXXXX";
	int first = mkostemp(path, O_CLOEXEC), second = open(path, O_RDWR | O_CLOEXEC);

	unlink(path);
	return first < 0 || second < 0 ? NULL : share(first, second);
}

static int lock_range(int file, int command, short type)
{
	struct flock range = { .l_type = type, .l_whence = SEEK_SET };

	return fcntl(file, command, &range);
}

static const char *locks_range(void *state)
{
	struct shared *shared = state;
	const char *wrong;

	lock_range(shared->wakes, F_OFD_SETLKW, F_WRLCK);
	wrong = torture_result(lock_range(shared->waits, F_OFD_SETLKW, F_WRLCK), 0, 0);
	lock_range(shared->waits, F_OFD_SETLKW, F_UNLCK);
	return wrong;
}

static void unlock_range(void *state)
{
	lock_range(((struct shared *)state)->wakes, F_OFD_SETLKW, F_UNLCK);
}

static void *make_listener(void)
{
	struct sockaddr_in here = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return made < 0 || bind(made, (struct sockaddr *)&here, sizeof(here)) || listen(made, 8) ?
		NULL : share(made, -1);
}

static int connect_to(int listener)
{
	struct sockaddr_storage there;
	socklen_t length = sizeof(there);
	int made;

	getsockname(listener, (struct sockaddr *)&there, &length);
	made = socket(there.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (made >= 0 && !connect(made, (struct sockaddr *)&there, length))
		return made;
	close(made);
	return -1;
}

static const char *accepts(void *state)
{
	int got = accept4(((struct shared *)state)->waits, NULL, NULL, SOCK_CLOEXEC);

	if (got < 0)
		return torture_result(got, 0, 0);
	close(got);
	return NULL;
}

static void connects_once(void *state)
{
	close(connect_to(((struct shared *)state)->waits));
}

/* A listener whose queue is full: who connects waits until one is accepted. */
static void *make_full_listener(void)
{
	struct sockaddr_un here = { .sun_family = AF_UNIX };
	int made = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	return made < 0 || bind(made, (struct sockaddr *)&here, sizeof(sa_family_t)) || listen(made,
											       0) ?
		NULL : share(made, connect_to(made));
}

static const char *connects(void *state)
{
	struct shared *shared = state;
	int made = connect_to(shared->waits);

	if (made < 0)
		return torture_result(made, 0, 0);
	close(shared->wakes);
	shared->wakes = made;
	return NULL;
}

static void accept_once(void *state)
{
	close(accept4(((struct shared *)state)->waits, NULL, NULL, SOCK_CLOEXEC));
}

static const char *waits_for_child(void *state)
{
	pid_t child = fork();
	int status = 0;
	const char *wrong;

	(void)state;
	if (!child) {
		torture_sleep_ms(20);
		_exit(7);
	}
	wrong = torture_result(waitpid(child, &status, 0), child, 0);
	return wrong ? wrong : torture_result(status, 7 << 8, 0);
}

static void *make_fifo(void)
{
	struct shared *shared = share(0, 0);

	if (!shared)
		return NULL;
	snprintf(shared->path, sizeof(shared->path), "/tmp/torture-fifo-%d", getpid());
	return mkfifo(shared->path, 0600) ? NULL : shared;
}

static const char *opens(void *state)
{
	int made = open(((struct shared *)state)->path, O_RDONLY | O_CLOEXEC);

	const char *wrong;
	char byte;

	if (made < 0)
		return torture_result(made, 0, 0);
	/* Until the writer has closed it, too: else the next open() finds that one. */
	wrong = torture_result(read(made, &byte, 1), 0, 0);
	close(made);
	return wrong;
}

static void open_for_writing(void *state)
{
	close(open(((struct shared *)state)->path, O_WRONLY | O_CLOEXEC));
}

static void remove_fifo(void *state)
{
	unlink(((struct shared *)state)->path);
}

static const struct torture_case cases[] = {
	{ "read of a pipe", make_pipe, reads, wake_by_write, NULL },
	{ "read of a socket", make_stream, reads, wake_by_write, NULL },
	{ "recv of a socket", make_stream, receives, wake_by_write, NULL },
	{ "poll", make_pipe, polls, wake_by_write, NULL },
	{ "select", make_pipe, selects, wake_by_write, NULL },
	{ "epoll_wait for edges", make_events, waits_for_edge, wake_by_write, NULL },
	{ "read of an eventfd", make_eventfd, reads_event, write_event, NULL },
	{ "read of a timerfd", make_timer, reads_timer, NULL, NULL },
	{ "sigwaitinfo", make_plain, waits_for_signal, queue_signal, NULL },
	{ "sigsuspend", make_plain, suspends, send_signal, NULL },
	{ "read with a signal, SA_RESTART", make_pipe, reads_with_signal, signal_and_write, NULL },
	{ "read of inotify", make_watch, reads_watch, make_file, remove_watch },
	{ "futex wait", make_plain, waits_on_futex, wake_futex, NULL },
	{ "semop", make_semaphore, takes_semaphore, give_semaphore, remove_semaphore },
	{ "msgrcv", make_messages, receives_message, send_message, remove_messages },
	{ "fcntl(F_OFD_SETLKW)", make_locked_file, locks_range, unlock_range, NULL },
	{ "accept", make_listener, accepts, connects_once, NULL },
	{ "connect", make_full_listener, connects, accept_once, NULL },
	{ "waitpid", NULL, waits_for_child, NULL, NULL },
	{ "open of a FIFO", make_fifo, opens, open_for_writing, remove_fifo },
};

int main(void)
{
	struct sigaction catch = { .sa_handler = handle };
	struct account *account;
	sigset_t blocked;
	int failed;

	/* Whoever waits for a signal takes it itself. */
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	sigaddset(&blocked, SIGUSR2);
	sigaddset(&blocked, SIGRTMIN + 3);
	sigprocmask(SIG_SETMASK, &blocked, NULL);
	sigaction(SIGUSR1, &catch, NULL);
	catch.sa_flags = SA_RESTART;
	sigaction(SIGUSR2, &catch, NULL);
	account = account_begin(false);
	failed = torture_run(cases, sizeof(cases) / sizeof(*cases));
	torture_close_all();
	return failed + account_end(account) ? 1 : 0;
}
