/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A test runner in a header: one test program per module, results as TAP. */
#ifndef TLBCOST_CHECK_H
#define TLBCOST_CHECK_H

#include <stdio.h>

struct check_test {
	const char *name;
	void (*run)(void);
	struct check_test *next;
};

static struct check_test *check_first, **check_last = &check_first;
static int check_failures;		/* in the running test */
static const char *check_skip_reason;	/* of the running test */

/* Fail the test, with the place and what was expected, but go on. */
#define CHECK(condition)                                                      \
	do {                                                                  \
		if (!(condition)) {                                           \
			check_failures++;                                     \
			printf("# %s:%d: not true: %s\n", __FILE__, __LINE__, \
			       #condition);                                   \
		}                                                             \
	} while (0)

#define CHECK_EQUAL(actual, expected)                                         \
	do {                                                                  \
		long long check_a = (long long)(actual);                      \
		long long check_e = (long long)(expected);                    \
		if (check_a != check_e) {                                     \
			check_failures++;                                     \
			printf("# %s:%d: %s is %lld, expected %lld\n",        \
			       __FILE__, __LINE__, #actual, check_a, check_e);\
		}                                                             \
	} while (0)

/* Leave the test: this machine lacks what it needs. */
#define CHECK_SKIP(reason)                  \
	do {                                \
		check_skip_reason = reason; \
		return;                     \
	} while (0)

/* Begin a test; the function's name is its own. Tests run in the order of definition. */
#define TEST(function)                                                           \
	static void function(void);                                              \
	__attribute__((constructor)) static void check_add_##function(void)      \
	{                                                                        \
		static struct check_test test = { #function, function, NULL };   \
                                                                                 \
		*check_last = &test;                                              \
		check_last = &test.next;                                          \
	}                                                                        \
	static void function(void)

/* Run the tests; 1: some failed. */
static inline int check_run(void)
{
	int failed = 0, count = 0;

	for (const struct check_test *test = check_first; test; test = test->next)
		count++;
	printf("1..%d\n", count);
	fflush(stdout);
	count = 0;
	for (const struct check_test *test = check_first; test; test = test->next) {
		check_failures = 0;
		check_skip_reason = NULL;
		test->run();
		printf("%s %d ", check_failures ? "not ok" : "ok", ++count);
		for (const char *c = test->name; *c; c++)
			putchar(*c == '_' ? ' ' : *c);
		if (check_skip_reason)
			printf(" # skip %s", check_skip_reason);
		putchar('\n');
		fflush(stdout);
		failed |= check_failures != 0;
	}
	return failed;
}

#define CHECK_MAIN int main(void) { return check_run(); }

#endif
