/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Where does a thread make our system calls, and how does it find its way back if we are gone?
 *
 * A few instructions are written to memory of the program that nothing else uses: behind the end of
 * the vDSO, in its last page; if there is no room, to a page of their own for the time of the stop.
 */
#ifndef TLBCOST_TRACE_TRAMPOLINE_H
#define TLBCOST_TRACE_TRAMPOLINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/user.h>

struct trampoline {
	uint64_t code;		/* where the instructions are; 0: nowhere yet */
	uint64_t end;		/* of the vDSO, if they are in it */
	uint64_t call;		/* address of their `syscall` */
	uint64_t plain;		/* another `syscall`, which leads nowhere: to map our page */
	int memory;		/* /proc/PID/mem */
	bool own_page;
	uint64_t turn;		/* counts uses: higher than in all other places */
};

/* The sixth argument of a call: what comes after it unless the thread is stopped. */
enum {
	TRAMPOLINE_BACK,
	TRAMPOLINE_CLONE,	/* the child ends; the thread reaps it and goes back */
	TRAMPOLINE_END,
};

/*
 * Look for room, before the thread is stopped.  Returns 0 (trampoline_close() comes last); or -1
 * with errno: ENOENT if there is no `syscall` instruction at all.
 */
int trampoline_open(struct trampoline *trampoline, pid_t process, pid_t thread);
void trampoline_close(struct trampoline *trampoline);

/* Is a stopped thread on its way back for a killed injector?  Then let it continue. */
bool trampoline_is_under_way(const struct trampoline *trampoline, pid_t thread, uint64_t at);

/*
 * Write the instructions and the state that they restore to a stopped thread.  `registers` are
 * changed to those that it needs before its first call: as soon as it runs, it returns to what it
 * did.  Returns 0; or -1 with errno, and the thread has executed nothing or was lost.
 */
int trampoline_lay(struct trampoline *trampoline, pid_t thread, uint64_t mask,
	       struct user_regs_struct *registers);

/*
 * Addresses, with the instructions at `call`: of a struct timespec, how long a parked copy lives,
 * and of a struct pollfd for it; of the `syscall` for a helper's mmap() and of the code that makes
 * its list of calls (trampoline_code.S).
 */
uint64_t trampoline_life(uint64_t call);
uint64_t trampoline_poll_of(uint64_t call);
uint64_t trampoline_map_of(uint64_t call);
uint64_t trampoline_list_of(uint64_t call);

/* Unmap our page, if there is one: the last call. */
void trampoline_lift(struct trampoline *trampoline, pid_t thread,
		     const struct user_regs_struct *registers);

#endif
