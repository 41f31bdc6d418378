/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * How is a thread of a running program copied?  A separate process, tlbcost-injector, does that and
 * nothing else.  It is small and locked in memory, so it is unlikely to be killed while a thread of
 * the program has registers that are not its own.
 *
 * It takes requests over a socket (SOCK_SEQPACKET), one at a time, and answers each with one
 * message.  It exits when the socket is closed.
 */
#ifndef TLBCOST_COPIES_INJECTOR_H
#define TLBCOST_COPIES_INJECTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "copy.h"
#include "refusal.h"

/* The descriptor of its socket in the injector. */
#define INJECTOR_SOCKET 3

enum injector_task {
	INJECT_COPY,	/* stop the thread, copy it, let it go */
	INJECT_RELEASE,	/* release the threads that wait for a copy to end */
	INJECT_REAP,	/* let the program reap the dead copies given so far */
};

/* Most copies that one stop makes: two for tests that compare. */
#define INJECTOR_MOST_COPIES 2
/* Threads never wait longer than this for the end of a copy. */
#define INJECTOR_HOLD_MS 600u

struct injector_request {
	enum injector_task task;
	pid_t program, thread;
	/*
	 * The program's parent, which must be this tool, is the copies' parent, too, and reaps them.
	 * Otherwise the system does (answer->orphaned); or the program, if it is the first process
	 * of its PID namespace: `dead` has the PIDs of dead copies as it sees them.
	 */
	bool sibling;
	/*
	 * Stop it even if it sleeps in a system call.  Most calls continue as if nothing had
	 * happened; relative timeouts of a few start over, and a write in progress may be short.
	 */
	bool sleeping;
	/*
	 * With a copy: stop all running threads until INJECT_RELEASE, or for INJECTOR_HOLD_MS, so
	 * that none of them writes to memory shared with the copy, which would have to be copied.
	 */
	bool hold;
	uint32_t copies;	/* 1 to INJECTOR_MOST_COPIES */
	uint32_t wait_ms;	/* give up if the thread does not stop within this time */
	/* Record its system calls afterwards: at most this many, for at most this long. */
	uint32_t record_calls, record_ms;
	uint64_t behind_ns;	/* see recorder.h */
	pid_t tracer;		/* will take the copies, which Yama must allow; 0: none */
	uint32_t dead_count;
	pid_t dead[32];
};

struct injector_answer {
	enum injector_refusal refusal;
	int32_t error;		/* errno */
	uint32_t copies;
	struct copy copy[INJECTOR_MOST_COPIES];
	bool orphaned;		/* the system reaps the copies */
	pid_t helper;		/* 0, or a dead child of the requester, which injector_ask*() reap */
	uint64_t pause_ns;	/* for which the thread was stopped */
	uint64_t clone_ns;	/* of that, in clone() */
	uint32_t restarted, rewound;	/* calls restarted by the kernel, and by us: EINTR */
	uint32_t rseq_aborted;
	uint32_t reaped;	/* a bit for each of `dead` that the program has reaped */
	uint64_t resident_bytes;	/* of the program */
	uint64_t huge_bytes;	/* transparent, by the last look; UINT64_MAX: not known */
	bool missing;		/* it lacks memory with MADV_DONTFORK and is useless: ask again */
	/* This many calls of the thread were recorded: see injector_ask_recording(). */
	uint32_t recorded;
	bool behind;		/* it could not keep up: recorder.h */
};

/* Start the process.  Returns its socket, or -1 with errno; *pid: its process. */
int injector_start(const char *path, pid_t *pid);

/* Ask, and wait for the answer.  Returns 0, or -1 with errno (EPIPE: it is gone). */
int injector_ask(int socket, const struct injector_request *request,
		 struct injector_answer *answer);

/*
 * The same; *recording is the descriptor of a file in memory with what was recorded (recorder.h),
 * for the caller to close; or -1 if nothing was.
 */
int injector_ask_recording(int socket, const struct injector_request *request,
			   struct injector_answer *answer, int *recording);

/*
 * In the injector: send an answer, with a recording unless it is -1.  Returns 0, or -1 with errno.
 */
int injector_reply(int socket, const struct injector_answer *answer, int recording);

#endif
