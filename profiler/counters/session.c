/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "session.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "clock.h"

/* Maximum delay until the end of a process is noticed. */
enum { POLL_MS = 100 };
/* Less uncounted time than this means nothing. */
#define UNSEEN_NS 20000000u
/* No program completes its execve() and its exit in this time. */
#define SHORTEST_NS 10000u

static int fail(struct session *session, const char *what)
{
	session->failed = what;
	return -1;
}

/* A pidfd reports the end of the process; kernels before 5.3 are polled at each tick. */
static int watch_process(struct session *session)
{
	if (session->options->scope != SCOPE_PROCESS || session->options->program.argv)
		return 0;
#ifdef SYS_pidfd_open
	session->end_fd = (int)syscall(SYS_pidfd_open, session->options->pid, 0);
	if (session->end_fd >= 0 || (errno != ENOSYS && errno != EPERM))
		return session->end_fd < 0 ? -1 : 0;
#endif
	session->polls = 1;
	session->end_fd = eventfd(0, EFD_CLOEXEC);
	return session->end_fd < 0 ? -1 : 0;
}

static int start_timer(const struct session *session)
{
	unsigned ms = session->options->interval_ms ? session->options->interval_ms : POLL_MS;
	const struct timespec time = {
		.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000,
	};
	const struct itimerspec timer = { .it_interval = time, .it_value = time };

	return timerfd_settime(session->timer_fd, 0, &timer, NULL);
}

/* Write what was counted since the last row. */
static int write_part(struct session *session, uint64_t now_ns)
{
	struct counter_value *values = session->values;

	if (bank_read(&session->attached.bank, values) < 0)
		return -1;
	rows_write(&session->table, &session->attached.bank, now_ns - session->start_ns, values,
		   session->before, 0);
	session->values = session->before;
	session->before = values;
	/* A full disk must not harm the program; the missing end of the table shows it. */
	table_flush(&session->table);
	return 0;
}

static int on_tick(void *context)
{
	struct session *session = context;
	uint64_t expirations;

	if (read(session->timer_fd, &expirations, sizeof(expirations)) < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	if (session->polls && kill(session->options->pid, 0) < 0 && errno == ESRCH &&
	    eventfd_write(session->end_fd, 1) < 0)
		return -1;
	return session->options->interval_ms ? write_part(session, clock_ns()) : 0;
}

int session_open(struct session *session, const struct count_options *options)
{
	int error;

	*session = (struct session){
		.options = options,
		.attached = { .cgroup_fd = -1 },
		.header = { .scope = options->scope, .mode = options->mode },
		.end_fd = -1, .timer_fd = -1,
	};
	if (options->interval_ms || options->scope == SCOPE_PROCESS) {
		session->timer_fd = timerfd_create(CLOCK_MONOTONIC,
						   TFD_CLOEXEC | TFD_NONBLOCK);
		session->tick = (struct watch_hook){
			.fd = session->timer_fd, .ready = on_tick, .context = session,
		};
		if (session->timer_fd < 0)
			return fail(session, "cannot make a timer");
	}
	if (table_open(&session->table, options->output, "counters", 1) < 0)
		return fail(session, options->output);
	/* Now, not after the program; on standard output after the program's own output. */
	if (session->table.file == stdout || table_flush(&session->table) == 0)
		return 0;
	error = errno;
	session_discard(session);
	errno = error;
	return fail(session, options->output);
}

const struct watch_hook *session_hook(const struct session *session)
{
	return session->timer_fd < 0 ? NULL : &session->tick;
}

int session_attach(pid_t pid, void *context)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct session *session = context;
	size_t count;

	if (attach_counters(&session->attached, session->options, pid) < 0) {
		session->failed = session->attached.failed;
		if (!session->failed)
			session->refused = errno;
		return -1;
	}
	session->header.cpus = session->attached.cpus;
	session->header.missed_threads = session->attached.missed_threads;
	count = session->attached.bank.member_count;
	session->values = calloc(count, sizeof(*session->values));
	session->before = calloc(count, sizeof(*session->before));
	if (!session->values || !session->before)
		return fail(session, "cannot hold the counts");
	/* After fork(): a reader of the rows that closes the pipe must not end the program. */
	if (sigaction(SIGPIPE, &ignore, NULL) < 0 || watch_process(session) < 0)
		return fail(session, "cannot watch the process");
	session->start_ns = clock_ns();
	if (session->options->interval_ms) {
		rows_header(&session->table, &session->attached.bank, &session->header);
		table_flush(&session->table);
	}
	if ((session->polls || session->options->interval_ms) && start_timer(session) < 0)
		return fail(session, "cannot set a timer");
	if (session->attached.targets->on_exec)
		return 0;
	return bank_start(&session->attached.bank) < 0 ? fail(session, "cannot start the counters") : 0;
}

void session_exercise(void)
{
	const size_t size = 256 << 10;
	const uint64_t end = clock_ns() + 2000000;
	volatile char *bytes = mmap(NULL, size, PROT_READ | PROT_WRITE,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (bytes == MAP_FAILED)
		return;
	do
		for (size_t at = 0; at < size; at += 64)
			bytes[at]++;
	while (clock_ns() < end);
	munmap((void *)bytes, size);
}

/*
 * A program that gains privileges when it starts (setuid) is no longer counted, nor are its
 * children: the enabled time of its counters is less than its run time.  The same happens to a
 * lesser degree if many processes end, which release their memory uncounted, and before a
 * process becomes the program, which takes long on a slow machine.
 */
static void find_uncounted(struct session *session, const struct program *program)
{
	const struct rusage *usage = &program->result.usage;
	struct rows_header *header = &session->header;
	uint64_t ran_ns, own_ns, counted_ns = 0;

	if (header->scope != SCOPE_PROGRAM || !session->options->inherit || !program->started)
		return;
	ran_ns = 1000000000u * (uint64_t)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
		 1000u * (uint64_t)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec);
	own_ns = ran_ns > program->before_exec_ns ? ran_ns - program->before_exec_ns : 0;
	for (size_t m = 0; m < session->attached.bank.member_count; m++)
		if (session->values[m].enabled_ns > counted_ns)
			counted_ns = session->values[m].enabled_ns;
	header->stopped = 2 * counted_ns + UNSEEN_NS < own_ns || counted_ns < own_ns / 50 ||
			  counted_ns < SHORTEST_NS;
	header->has_uncounted = 1;
	header->uncounted_ns = ran_ns > counted_ns ? ran_ns - counted_ns : 0;
}

static int write_whole(struct session *session, const struct program *program)
{
	struct bank *bank = &session->attached.bank;
	uint64_t end_ns = program->result.end_ns ? program->result.end_ns : clock_ns();

	if (session->refused) {
		rows_header(&session->table, bank, &session->header);
		rows_write(&session->table, bank, 0, NULL, NULL, 0);
		return 0;
	}
	if (bank_stop(bank) < 0 || bank_read(bank, session->values) < 0)
		return fail(session, "cannot read the counters");
	session->header.duration_ns = end_ns - session->start_ns;
	find_uncounted(session, program);
	if (!session->options->interval_ms)
		rows_header(&session->table, bank, &session->header);
	rows_write(&session->table, bank, session->header.duration_ns, session->values,
		   session->options->interval_ms ? session->before : NULL,
		   session->header.stopped);
	return 0;
}

static void release(struct session *session)
{
	attached_close(&session->attached);
	free(session->values);
	free(session->before);
	session->values = session->before = NULL;
}

int session_close(struct session *session, const struct program *program)
{
	int rc = write_whole(session, program), error;

	if (rc == 0 && table_close(&session->table) < 0)
		rc = fail(session, session->options->output);
	error = errno;
	session_discard(session);
	errno = error;
	return rc;
}

void session_discard(struct session *session)
{
	table_discard(&session->table);
	release(session);
}
