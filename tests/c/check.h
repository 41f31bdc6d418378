/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A test runner in a header: one test program per module, results as TAP. */
#ifndef TLBCOST_CHECK_H
#define TLBCOST_CHECK_H

#include <stdio.h>

struct check_test {
	const char *name;
	void (*run)(void);
};

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

#define CHECK_MAIN(tests)                                                  \
	int main(void)                                                     \
	{                                                                  \
		return check_run(tests, sizeof(tests) / sizeof((tests)[0])); \
	}

static inline int check_run(const struct check_test *tests, size_t count)
{
	int failed = 0;

	printf("1..%zu\n", count);
	for (size_t i = 0; i < count; i++) {
		check_failures = 0;
		check_skip_reason = NULL;
		tests[i].run();
		printf("%s %zu %s", check_failures ? "not ok" : "ok", i + 1,
		       tests[i].name);
		if (check_skip_reason)
			printf(" # skip %s", check_skip_reason);
		putchar('\n');
		fflush(stdout);
		failed |= check_failures != 0;
	}
	return failed;
}

#endif
