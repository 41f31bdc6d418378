/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "watch.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "family.h"

/* Long enough to write a last file, short enough to be waited for. */
#define GRACE_NS 2000000000u
/* Later than this is never, for poll(). */
#define MOST_NS 2000000000000000u
/*
 * Sent by the kernel when a thread of the parent ends.  Not SIGTERM, which is the program's: of a
 * parent that is killed, the thread that started us may end well before the last one, and until
 * then this is no orphan.
 */
#define PARENT_SIGNAL SIGUSR2

enum { SIGNALS, STDOUT, STDERR, HOOK, SOURCES };

int watch_prepare(struct watch_signals *signals)
{
	struct sigaction wait_for_it = { .sa_handler = SIG_DFL };
	sigset_t held, read;

	signals->parent = getppid();
	sigemptyset(&read);
	sigaddset(&read, SIGCHLD);
	sigaddset(&read, SIGTERM);
	sigaddset(&read, SIGHUP);
	sigaddset(&read, PARENT_SIGNAL);
	held = read;
	sigaddset(&held, SIGINT);
	sigaddset(&held, SIGQUIT);
	if (sigprocmask(SIG_BLOCK, &held, &signals->mask) < 0)
		return -1;
	/* Where SIGCHLD is ignored, children vanish without a status. */
	if (sigaction(SIGCHLD, &wait_for_it, &signals->on_child) < 0)
		return -1;
	signals->fd = signalfd(-1, &read, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals->fd < 0)
		return -1;
	if (prctl(PR_SET_PDEATHSIG, PARENT_SIGNAL) < 0)
		return -1;
	/* A parent that died before it was asked for sends nothing. */
	if (getppid() != signals->parent) {
		errno = ESRCH;
		return -1;
	}
	return 0;
}

/* Read what is there, at most `limit` bytes.  Returns 1 while more may come. */
static int drain(int fd, size_t limit, struct tail *tail)
{
	/* Not on a stack that `ulimit -s` may have made smaller than that. */
	static char buffer[1 << 16];

	for (size_t total = 0; total < limit;) {
		ssize_t n = read(fd, buffer, sizeof(buffer));

		if (n < 0)
			return errno == EAGAIN || errno == EINTR;
		if (n == 0)
			return 0;
		if (tail)
			tail_add(tail, buffer, (size_t)n);
		total += (size_t)n;
	}
	return 1;
}

/*
 * The program is gone.  What it wrote is in the pipe, so one pipe's capacity
 * is enough, even if a process that it left behind writes for ever.
 */
static void drain_last(int fd, struct tail *tail)
{
	int capacity = fd < 0 ? 0 : fcntl(fd, F_GETPIPE_SZ);

	if (capacity > 0)
		drain(fd, (size_t)capacity, tail);
}

/*
 * The launcher's parent is dead: so is the run.  If it took turns with another run, it may be
 * stopped.
 */
static void end_family(pid_t pid, int number)
{
	struct family family;

	family_of(&family, pid, 0);
	family_signal(&family, number);
}

/*
 * Pass SIGTERM and SIGHUP on.  Returns 1 if the launcher's parent is dead.  Then we adopt orphans
 * before the program hears of it: when it ends, what it started must not be lost.  *own, empty at
 * first, is what was here without the program.
 */
static int forward(const struct watch_signals *signals, pid_t pid, struct family *own)
{
	struct signalfd_siginfo info;
	int term = 0, hup = 0, orphaned;

	while (read(signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
		term |= info.ssi_signo == SIGTERM;
		hup |= info.ssi_signo == SIGHUP;
	}
	orphaned = getppid() != signals->parent;
	if (orphaned && !own->n) {
		family_of(own, getpid(), pid);
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	}
	if (hup)
		kill(pid, SIGHUP);
	if (term)
		kill(pid, SIGTERM);
	return orphaned;
}

static int reaped(pid_t pid, struct waits *waits, struct watch_result *result)
{
	siginfo_t info = { .si_pid = 0 };

	if (waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT) < 0)
		return -1;
	/* Of a program that the launcher traces, its stops are seen, too. */
	if (!info.si_pid || info.si_code == CLD_TRAPPED || info.si_code == CLD_STOPPED)
		return 0;
	result->end_ns = clock_ns();
	/* A process that has ended shows its times until it is reaped. */
	waits_last(waits);
	return wait4(pid, &result->status, 0, &result->usage) < 0 ? -1 : 1;
}

static int give_up(pid_t pid, int error)
{
	kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	errno = error;
	return -1;
}

/* Time that is left before `deadline` (0: none was set) and the next sample, for poll(). */
static int timeout_ms(uint64_t deadline, uint64_t sample)
{
	uint64_t now = clock_ns(), next = deadline && deadline < sample ? deadline : sample;

	if (next <= now)
		return 0;
	return next - now < MOST_NS ? (int)((next - now) / 1000000 + 1) : -1;
}

static int call(const struct watch_hook *hook, const struct pollfd *source)
{
	return hook && source->revents ? hook->ready(hook->context) : 0;
}

static int wait_loop(const struct watch_signals *signals, pid_t pid,
		     struct pollfd *sources, struct tail *last_words,
		     const struct watch_hook *hook, struct waits *waits,
		     struct watch_result *result)
{
	uint64_t deadline = 0;
	struct family own = { .n = 0 };
	int rc, killed = 0;

	for (;;) {
		rc = poll(sources, SOURCES, timeout_ms(killed ? 0 : deadline, waits_due(waits)));
		if (rc < 0 && errno != EINTR)
			return give_up(pid, errno);
		if (clock_ns() >= waits_due(waits))
			waits_sample(waits);
		if (deadline && !killed && clock_ns() >= deadline) {
			end_family(pid, SIGKILL);
			killed = 1;
		}
		if (rc <= 0)
			continue;
		if (sources[STDOUT].revents && !drain(sources[STDOUT].fd, 1, NULL))
			sources[STDOUT].fd = -1;
		if (sources[STDERR].revents &&
		    !drain(sources[STDERR].fd, 1, last_words))
			sources[STDERR].fd = -1;
		if (call(hook, &sources[HOOK]) < 0)
			return give_up(pid, errno);
		if (!sources[SIGNALS].revents)
			continue;
		if (forward(signals, pid, &own) && !deadline) {
			deadline = clock_ns() + GRACE_NS;
			end_family(pid, SIGTERM);
		}
		if (hook && hook->fd < 0 && hook->ready(hook->context) < 0)
			return give_up(pid, errno);
		rc = reaped(pid, waits, result);
		if (rc < 0)
			return give_up(pid, errno);
		if (rc > 0) {
			if (deadline)
				family_end_rest(&own, deadline);
			return 0;
		}
	}
}

static uint64_t cpu_ns(const struct rusage *usage)
{
	return timeval_ns(usage->ru_utime) + timeval_ns(usage->ru_stime);
}

int watch_program(struct watch_signals *signals, pid_t pid, int stdout_fd,
		  int stderr_fd, struct tail *last_words,
		  const struct watch_hook *hook, struct watch_result *result)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct pollfd sources[SOURCES] = {
		[SIGNALS] = { .fd = signals->fd, .events = POLLIN },
		[STDOUT] = { .fd = stdout_fd, .events = POLLIN },
		[STDERR] = { .fd = stderr_fd, .events = POLLIN },
		[HOOK] = { .fd = hook ? hook->fd : -1, .events = POLLIN },
	};

	struct waits waits;
	int rc;

	if (sigaction(SIGINT, &ignore, NULL) < 0 ||
	    sigaction(SIGQUIT, &ignore, NULL) < 0)
		return give_up(pid, errno);
	for (int i = STDOUT; i <= STDERR; i++)
		if (sources[i].fd >= 0 &&
		    fcntl(sources[i].fd, F_SETFL, O_NONBLOCK) < 0)
			return give_up(pid, errno);
	waits_start(&waits, pid);
	rc = wait_loop(signals, pid, sources, last_words, hook, &waits, result);
	if (rc == 0)
		result->waited_known = waits_total(&waits, cpu_ns(&result->usage),
						   &result->waited_ns) == 0;
	waits_free(&waits);
	if (rc < 0)
		return -1;
	drain_last(sources[STDOUT].fd, NULL);
	drain_last(sources[STDERR].fd, last_words);
	return 0;
}

/* Whether to end: asked to, or the parent is dead. */
static int is_stopped(const struct watch_signals *signals)
{
	struct signalfd_siginfo info;
	int asked = 0;

	while (read(signals->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		asked |= info.ssi_signo != PARENT_SIGNAL;
	return asked || getppid() != signals->parent;
}

int watch_others(struct watch_signals *signals, int end_fd,
		 const struct watch_hook *hook)
{
	enum { STOP, END, DUE, EVENTS };
	struct pollfd sources[EVENTS] = {
		[STOP] = { .fd = signals->fd, .events = POLLIN },
		[END] = { .fd = end_fd, .events = POLLIN },
		[DUE] = { .fd = hook ? hook->fd : -1, .events = POLLIN },
	};
	sigset_t stop;

	/* The terminal is ours alone: Ctrl-C is for the watcher. */
	sigemptyset(&stop);
	sigaddset(&stop, SIGINT);
	sigaddset(&stop, SIGTERM);
	sigaddset(&stop, SIGHUP);
	sigaddset(&stop, PARENT_SIGNAL);
	if (signalfd(signals->fd, &stop, 0) < 0)
		return -1;
	for (;;) {
		if (poll(sources, EVENTS, -1) < 0) {
			if (errno != EINTR)
				return -1;
			continue;
		}
		if (call(hook, &sources[DUE]) < 0)
			return -1;
		if (sources[END].revents || (sources[STOP].revents && is_stopped(signals)))
			return 0;
	}
}
