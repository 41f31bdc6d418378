/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where does a thread make our system calls, and how does it find its way back if we are gone?
 *
 * A few instructions are written to memory of the program that nothing else uses: behind the end of
 * the vDSO, in its last page; if there is no room, to a page of their own for the time of the stop.
 */
#ifndef TLBCOST_COPIES_TRAMPOLINE_H
#define TLBCOST_COPIES_TRAMPOLINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct trampoline {
	uint64_t code;		/* where the instructions are; 0: nowhere yet */
	uint64_t end;		/* of the vDSO, if they are in it */
	uint64_t call;		/* address of their `syscall` */
	uint64_t plain;		/* of another one, which leads nowhere: for a page of our own */
	int memory;		/* /proc/PID/mem */
	bool own_page;
	uint64_t turn;		/* the number of its use: higher than those of all other places */
};

/* The sixth argument of a call: what comes after it if nobody stops the thread. */
enum {
	TRAMPOLINE_BACK,
	TRAMPOLINE_CLONE,	/* the copy ends, the original goes back */
	TRAMPOLINE_END,
};

/*
 * Look for room, before the thread is stopped.  Returns 0 (trampoline_close() comes last); or -1
 * with errno: ENOENT if there is no `syscall` instruction at all.
 */
int trampoline_open(struct trampoline *trampoline, pid_t process, pid_t thread);
void trampoline_close(struct trampoline *trampoline);

/*
 * Whether a stopped thread is on its way back for another injector that was killed: it has to be
 * let go on.
 */
bool trampoline_is_under_way(const struct trampoline *trampoline, pid_t thread, uint64_t at);

/*
 * Of a stopped thread: write the instructions and with what they lead back.  Afterwards `registers`
 * are changed to what it is to have before its first call: it goes back as soon as it runs.
 * Returns 0, or -1 with errno, and no instruction was executed or the thread was lost.
 */
int trampoline_lay(struct trampoline *trampoline, pid_t thread, uint64_t mask,
	       struct user_regs_struct *registers);

/* With the instructions at `call`: address of a struct timespec, how long a parked copy lives. */
uint64_t trampoline_life(uint64_t call);

/* Take our page away again, if there is one: the last call. */
void trampoline_lift(struct trampoline *trampoline, pid_t thread,
		     const struct user_regs_struct *registers);

#endif
