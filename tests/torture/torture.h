/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What do programs share that report whether anybody disturbed them?  Each prints an account that
 * is the same in every run: results, errors, signals, children, descriptors and mappings as they
 * must be, or what was different.
 */
#ifndef TLBCOST_TORTURE_H
#define TLBCOST_TORTURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Whether to continue: until the file that TORTURE_UNTIL names exists, but TORTURE_SECONDS at most
 * (60); without that variable for this many seconds (1).
 */
bool torture_more(void);

uint64_t torture_now_ns(void);		/* CLOCK_MONOTONIC */
void torture_sleep_ms(unsigned ms);	/* all of it, whatever happens */
void torture_spin(unsigned rounds);	/* user time: about a millisecond for a million */

/* A text of what went wrong, in memory that is never freed. */
const char *torture_wrong(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Print a line of the account; NULL: it was as it must be.  Returns 1 if it was not, else 0. */
int torture_line(const char *name, const char *wrong);

/*
 * NULL if `got` is `expected` and, if that is -1, errno is `error`.  Else what it was: to be called
 * right after the call.
 */
const char *torture_result(long got, long expected, int error);

/* Close all descriptors but the standard ones, inherited or own. */
void torture_close_all(void);

/* Something that is done again and again, in a thread of its own, while all others are. */
struct torture_case {
	const char *name;
	void *(*set_up)(void);		/* what the others get; may be NULL */
	const char *(*once)(void *state);	/* NULL, or what went wrong */
	/* In another thread, some time after once() has begun; may be NULL. */
	void (*wake)(void *state);
	void (*tear_down)(void *state);		/* may be NULL */
};

/* Run all until torture_more() says no; print a line for each.  Returns how many went wrong. */
int torture_run(const struct torture_case *cases, size_t count);

/* What a process can see of itself: before, and whether it is the same afterwards. */
struct account;
/* `childless`: it will have no children, or wait for none. */
struct account *account_begin(bool childless);
/* Prints its lines; returns how many are wrong.  No children may be left. */
int account_end(struct account *account);

#endif
