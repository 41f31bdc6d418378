/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "interrupted_call.h"

#include <errno.h>
#include <sys/syscall.h>

/* syscall: 0f 05; int 0x80: cd 80. */
#define INSTRUCTION_BYTES 2u

/* Of the kernel alone (include/linux/errno.h). */
enum { RESTARTSYS = 512, RESTARTNOINTR = 513, RESTARTNOHAND = 514, RESTART_BLOCK = 516 };

/*
 * Calls that a mere stop ends with EINTR (signal(7), and the kernel's source).  They have done
 * nothing then, and can be made again.
 */
static bool is_interrupted_by_stop(long call)
{
	switch (call) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case 441: /* epoll_pwait2 */
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_rt_sigtimedwait:
	case SYS_io_getevents:
	case 426: /* io_uring_enter */
	case SYS_fallocate:	/* of tmpfs */
	/* Of inotify, and of sockets with a timeout (SO_RCVTIMEO, SO_SNDTIMEO). */
	case SYS_read:
	case SYS_readv:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_recvmmsg:
	case SYS_accept:
	case SYS_accept4:
	case SYS_write:
	case SYS_writev:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg:
	case SYS_connect:
		return true;
	default:
		return false;
	}
}

static void again(struct user_regs_struct *registers)
{
	registers->rax = registers->orig_rax;
	registers->rip -= INSTRUCTION_BYTES;
	registers->orig_rax = (unsigned long)-1;
}

enum interrupted_call interrupted_call(struct user_regs_struct *own,
				       struct user_regs_struct *start, bool signalled)
{
	enum interrupted_call result = CALL_OVER;

	if ((long)own->orig_rax >= 0) {
		switch (-(long)own->rax) {
		case RESTARTSYS:
		case RESTARTNOINTR:
		case RESTARTNOHAND:
		case RESTART_BLOCK:
			again(start);
			result = CALL_RESTARTED;
			break;
		case EINTR:
			if (signalled || !is_interrupted_by_stop((long)own->orig_rax))
				break;
			again(own);
			again(start);
			result = CALL_REWOUND;
			break;
		default:
			break;
		}
	}
	start->orig_rax = (unsigned long)-1;
	return result;
}
