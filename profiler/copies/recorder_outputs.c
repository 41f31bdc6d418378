/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Which memory has a system call of x86-64 written? */
#include "recorder.h"

#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/utsname.h>

/* The kernel's structures, where the C library has different ones or none. */
#define EPOLL_EVENT_BYTES 12u
#define STATX_BYTES 256u
#define SIGNAL_SET_BYTES 8u
#define SIGACTION_BYTES 32u
#define PATIENCE_BYTES 16u	/* struct timespec and struct timeval */
#define MOST_VECTORS 48u

/* What is known of a call's arguments. */
enum shape {
	NOTHING,	/* it writes no memory */
	RESULT,		/* as many bytes as its result says, times .bytes */
	FIXED,		/* .bytes, if it succeeded */
	OF_ITS_OWN,	/* see special() */
};

struct known_call {
	uint16_t call;
	uint8_t shape, argument;
	uint16_t bytes;
};

static const struct known_call known_calls[] = {
	{ SYS_read, RESULT, 1, 1 }, { SYS_pread64, RESULT, 1, 1 },
	{ SYS_readv, OF_ITS_OWN, 0, 0 }, { SYS_preadv, OF_ITS_OWN, 0, 0 },
	{ SYS_preadv2, OF_ITS_OWN, 0, 0 },
	{ SYS_recvfrom, OF_ITS_OWN, 0, 0 }, { SYS_recvmsg, OF_ITS_OWN, 0, 0 },
	{ SYS_epoll_wait, RESULT, 1, EPOLL_EVENT_BYTES },
	{ SYS_epoll_pwait, RESULT, 1, EPOLL_EVENT_BYTES },
	{ 441 /* epoll_pwait2 */, RESULT, 1, EPOLL_EVENT_BYTES },
	{ SYS_poll, OF_ITS_OWN, 0, 0 }, { SYS_ppoll, OF_ITS_OWN, 0, 0 },
	{ SYS_select, OF_ITS_OWN, 0, 0 }, { SYS_pselect6, OF_ITS_OWN, 0, 0 },
	{ SYS_stat, FIXED, 1, sizeof(struct stat) }, { SYS_lstat, FIXED, 1, sizeof(struct stat) },
	{ SYS_fstat, FIXED, 1, sizeof(struct stat) },
	{ SYS_newfstatat, FIXED, 2, sizeof(struct stat) }, { SYS_statx, FIXED, 4, STATX_BYTES },
	{ SYS_statfs, FIXED, 1, sizeof(struct statfs) },
	{ SYS_fstatfs, FIXED, 1, sizeof(struct statfs) },
	{ SYS_accept, OF_ITS_OWN, 0, 0 }, { SYS_accept4, OF_ITS_OWN, 0, 0 },
	{ SYS_getsockname, OF_ITS_OWN, 0, 0 }, { SYS_getpeername, OF_ITS_OWN, 0, 0 },
	{ SYS_getsockopt, OF_ITS_OWN, 0, 0 },
	{ SYS_getrandom, RESULT, 0, 1 }, { SYS_getdents64, RESULT, 1, 1 },
	{ SYS_readlink, RESULT, 1, 1 }, { SYS_readlinkat, RESULT, 2, 1 },
	{ SYS_getcwd, RESULT, 0, 1 }, { SYS_sched_getaffinity, RESULT, 2, 1 },
	{ SYS_clock_gettime, FIXED, 1, PATIENCE_BYTES }, { SYS_clock_getres, FIXED, 1, PATIENCE_BYTES },
	{ SYS_gettimeofday, OF_ITS_OWN, 0, 0 }, { SYS_time, FIXED, 0, 8 },
	{ SYS_times, FIXED, 0, 32 }, { SYS_getrusage, FIXED, 1, sizeof(struct rusage) },
	{ SYS_sysinfo, FIXED, 0, sizeof(struct sysinfo) },
	{ SYS_uname, FIXED, 0, sizeof(struct utsname) },
	{ SYS_getrlimit, FIXED, 1, 16 }, { SYS_prlimit64, FIXED, 3, 16 },
	{ SYS_pipe, FIXED, 0, 8 }, { SYS_pipe2, FIXED, 0, 8 }, { SYS_socketpair, FIXED, 3, 8 },
	{ SYS_rt_sigprocmask, FIXED, 2, SIGNAL_SET_BYTES },
	{ SYS_rt_sigaction, FIXED, 2, SIGACTION_BYTES }, { SYS_sigaltstack, FIXED, 1, 24 },
	{ SYS_rt_sigpending, FIXED, 0, SIGNAL_SET_BYTES },
	{ SYS_getitimer, FIXED, 1, 32 }, { SYS_setitimer, FIXED, 2, 32 },
	{ SYS_timerfd_settime, FIXED, 3, 32 }, { SYS_timerfd_gettime, FIXED, 1, 32 },
	{ SYS_timer_settime, FIXED, 3, 32 }, { SYS_timer_gettime, FIXED, 1, 32 },
	{ SYS_sendfile, FIXED, 2, 8 }, { SYS_getcpu, OF_ITS_OWN, 0, 0 },
	{ SYS_ioctl, OF_ITS_OWN, 0, 0 }, { SYS_fcntl, OF_ITS_OWN, 0, 0 },
	{ SYS_futex, OF_ITS_OWN, 0, 0 },
	{ SYS_write, NOTHING, 0, 0 }, { SYS_writev, NOTHING, 0, 0 }, { SYS_pwrite64, NOTHING, 0, 0 },
	{ SYS_pwritev, NOTHING, 0, 0 }, { SYS_sendto, NOTHING, 0, 0 }, { SYS_sendmsg, NOTHING, 0, 0 },
	{ SYS_open, NOTHING, 0, 0 }, { SYS_openat, NOTHING, 0, 0 }, { SYS_close, NOTHING, 0, 0 },
	{ SYS_lseek, NOTHING, 0, 0 }, { SYS_access, NOTHING, 0, 0 }, { SYS_faccessat, NOTHING, 0, 0 },
	{ SYS_faccessat2, NOTHING, 0, 0 }, { SYS_dup, NOTHING, 0, 0 }, { SYS_dup2, NOTHING, 0, 0 },
	{ SYS_dup3, NOTHING, 0, 0 }, { SYS_socket, NOTHING, 0, 0 }, { SYS_connect, NOTHING, 0, 0 },
	{ SYS_bind, NOTHING, 0, 0 }, { SYS_listen, NOTHING, 0, 0 }, { SYS_shutdown, NOTHING, 0, 0 },
	{ SYS_setsockopt, NOTHING, 0, 0 }, { SYS_epoll_ctl, NOTHING, 0, 0 },
	{ SYS_epoll_create, NOTHING, 0, 0 }, { SYS_epoll_create1, NOTHING, 0, 0 },
	{ SYS_eventfd2, NOTHING, 0, 0 }, { SYS_timerfd_create, NOTHING, 0, 0 },
	{ SYS_fsync, NOTHING, 0, 0 }, { SYS_fdatasync, NOTHING, 0, 0 },
	{ SYS_sync_file_range, NOTHING, 0, 0 }, { SYS_ftruncate, NOTHING, 0, 0 },
	{ SYS_fallocate, NOTHING, 0, 0 }, { SYS_fadvise64, NOTHING, 0, 0 },
	{ SYS_flock, NOTHING, 0, 0 }, { SYS_unlink, NOTHING, 0, 0 }, { SYS_unlinkat, NOTHING, 0, 0 },
	{ SYS_rename, NOTHING, 0, 0 }, { SYS_mkdir, NOTHING, 0, 0 }, { SYS_chdir, NOTHING, 0, 0 },
	{ SYS_umask, NOTHING, 0, 0 }, { SYS_chmod, NOTHING, 0, 0 }, { SYS_fchmod, NOTHING, 0, 0 },
	{ SYS_getpid, NOTHING, 0, 0 }, { SYS_gettid, NOTHING, 0, 0 }, { SYS_getppid, NOTHING, 0, 0 },
	{ SYS_getuid, NOTHING, 0, 0 }, { SYS_geteuid, NOTHING, 0, 0 }, { SYS_getgid, NOTHING, 0, 0 },
	{ SYS_getegid, NOTHING, 0, 0 }, { SYS_kill, NOTHING, 0, 0 }, { SYS_tgkill, NOTHING, 0, 0 },
	{ SYS_sched_yield, NOTHING, 0, 0 }, { SYS_nanosleep, NOTHING, 0, 0 },
	{ SYS_clock_nanosleep, NOTHING, 0, 0 }, { SYS_restart_syscall, NOTHING, 0, 0 },
	{ SYS_mmap, NOTHING, 0, 0 }, { SYS_munmap, NOTHING, 0, 0 }, { SYS_mremap, NOTHING, 0, 0 },
	{ SYS_mprotect, NOTHING, 0, 0 }, { SYS_brk, NOTHING, 0, 0 }, { SYS_madvise, NOTHING, 0, 0 },
	{ SYS_membarrier, NOTHING, 0, 0 }, { SYS_alarm, NOTHING, 0, 0 },
};

struct list {
	struct recorded_output *outputs;
	int count;
	pid_t thread;
};

static bool peek(pid_t thread, uint64_t address, void *buffer, size_t bytes)
{
	const struct iovec here = { buffer, bytes };
	const struct iovec there = { (void *)(uintptr_t)address, bytes };

	return process_vm_readv(thread, &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

static bool add(struct list *list, uint64_t address, uint64_t bytes)
{
	if (!address || !bytes)
		return true;
	if (list->count == (int)RECORDED_MOST_OUTPUTS)
		return false;
	list->outputs[list->count++] = (struct recorded_output){ address, bytes };
	return true;
}

/* The first `bytes` of what an array of struct iovec describes. */
static bool add_vectors(struct list *list, uint64_t vectors, uint64_t count, uint64_t bytes)
{
	struct iovec all[MOST_VECTORS];

	if (count > MOST_VECTORS || !peek(list->thread, vectors, all, count * sizeof(*all)))
		return count == 0;
	for (uint64_t i = 0; i < count && bytes; i++) {
		uint64_t part = all[i].iov_len < bytes ? all[i].iov_len : bytes;

		if (!add(list, (uint64_t)(uintptr_t)all[i].iov_base, part))
			return false;
		bytes -= part;
	}
	return true;
}

/* An address of a socket, whose length is written next to it, as it is now. */
static bool add_sized(struct list *list, uint64_t address, uint64_t length_address)
{
	uint32_t length;

	if (!address || !length_address)
		return true;
	if (!peek(list->thread, length_address, &length, sizeof(length)) || length > 4096)
		return false;
	return add(list, length_address, sizeof(length)) && add(list, address, length);
}

static bool add_message(struct list *list, uint64_t address, uint64_t bytes)
{
	struct msghdr message;

	if (!peek(list->thread, address, &message, sizeof(message)))
		return false;
	return add(list, address, sizeof(message)) &&
		add(list, (uint64_t)(uintptr_t)message.msg_name, message.msg_namelen) &&
		add(list, (uint64_t)(uintptr_t)message.msg_control, message.msg_controllen) &&
		add_vectors(list, (uint64_t)(uintptr_t)message.msg_iov, message.msg_iovlen, bytes);
}

static bool add_sets(struct list *list, const struct recorded_call *call)
{
	uint64_t bytes = (call->arguments[0] + 63) / 64 * 8;

	for (unsigned i = 1; i <= 3; i++)
		if (!add(list, call->arguments[i], bytes))
			return false;
	return add(list, call->arguments[4], PATIENCE_BYTES);
}

static bool add_ioctl(struct list *list, const struct recorded_call *call)
{
	switch (call->arguments[1]) {
	case 0x541b: /* FIONREAD */
	case 0x5413: /* TIOCGWINSZ */
		return add(list, call->arguments[2], call->arguments[1] == 0x541b ? 4 : 8);
	case 0x5401: /* TCGETS */
		return call->result < 0 || add(list, call->arguments[2], 36);
	case 0x5421: /* FIONBIO */
	case 0x5450: /* FIONCLEX */
	case 0x5451: /* FIOCLEX */
		return true;
	default:
		return call->result < 0;
	}
}

static bool add_fcntl(struct list *list, const struct recorded_call *call)
{
	switch (call->arguments[1]) {
	case 5: /* F_GETLK */
	case 36: /* F_OFD_GETLK */
		return add(list, call->arguments[2], 32);
	case 16: /* F_GETOWN_EX */
		return add(list, call->arguments[2], 8);
	default:
		return true;
	}
}

/* Waiting and waking alone write nothing. */
static bool add_futex(const struct recorded_call *call)
{
	switch (call->arguments[1] & 0x7f) {
	case 0: /* FUTEX_WAIT */
	case 1: /* FUTEX_WAKE */
	case 9: /* FUTEX_WAIT_BITSET */
	case 10: /* FUTEX_WAKE_BITSET */
		return true;
	default:
		return false;
	}
}

static bool special(struct list *list, const struct recorded_call *call)
{
	const uint64_t *arguments = call->arguments;
	bool succeeded = call->result >= 0;
	uint64_t bytes = succeeded ? (uint64_t)call->result : 0;

	switch (call->call) {
	case SYS_readv:
	case SYS_preadv:
	case SYS_preadv2:
		return add_vectors(list, arguments[1], arguments[2], bytes);
	case SYS_recvfrom:
		return !succeeded || (add(list, arguments[1], bytes) &&
				      add_sized(list, arguments[4], arguments[5]));
	case SYS_recvmsg:
		return !succeeded || add_message(list, arguments[1], bytes);
	case SYS_poll:
	case SYS_ppoll:
		return add(list, arguments[0], arguments[1] * sizeof(struct pollfd)) &&
			(call->call == SYS_poll || add(list, arguments[2], PATIENCE_BYTES));
	case SYS_select:
	case SYS_pselect6:
		return add_sets(list, call);
	case SYS_accept:
	case SYS_accept4:
	case SYS_getsockname:
	case SYS_getpeername:
		return !succeeded || add_sized(list, arguments[1], arguments[2]);
	case SYS_getsockopt:
		return !succeeded || add_sized(list, arguments[3], arguments[4]);
	case SYS_gettimeofday:
		return add(list, arguments[0], PATIENCE_BYTES) && add(list, arguments[1], 8);
	case SYS_getcpu:
		return add(list, arguments[0], 4) && add(list, arguments[1], 4);
	case SYS_ioctl:
		return add_ioctl(list, call);
	case SYS_fcntl:
		return add_fcntl(list, call);
	case SYS_futex:
		return add_futex(call);
	default:
		return false;
	}
}

int recorded_outputs(pid_t thread, const struct recorded_call *call,
		     struct recorded_output outputs[RECORDED_MOST_OUTPUTS])
{
	struct list list = { .outputs = outputs, .thread = thread };
	bool known = false;

	for (size_t i = 0; i < sizeof(known_calls) / sizeof(*known_calls); i++) {
		const struct known_call *each = &known_calls[i];
		uint64_t address = call->arguments[each->argument];

		if (each->call != call->call)
			continue;
		if (each->shape == NOTHING)
			known = true;
		else if (each->shape == OF_ITS_OWN)
			known = special(&list, call);
		else if (call->result < 0)
			known = true;
		else
			known = add(&list, address, each->shape == FIXED ? each->bytes :
				    (uint64_t)call->result * each->bytes);
		break;
	}
	return known ? list.count : -1;
}
