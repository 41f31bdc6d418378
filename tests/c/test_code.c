/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does the chain of jumps visit every line once a round, return, and refuse what is impossible? */
#include "check.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "code.h"
#include "jumps.h"

/* Where does this line's jump lead?  NULL: it is not a jump. */
static char *target(char *line)
{
#if defined(__x86_64__)
	int32_t rel;

	if ((unsigned char)line[0] != 0xe9)
		return NULL;
	memcpy(&rel, line + 1, sizeof(rel));
	return line + 5 + rel;
#else
	uint32_t word;

	memcpy(&word, line, sizeof(word));
	if (word >> 26 != 5)
		return NULL;
	return line + 4 * ((int32_t)(word << 6) >> 6);
#endif
}

static void jumps_are_one_cycle(size_t lines, size_t stride)
{
	struct code code = code_of(lines, stride);
	uint32_t *order = calloc(lines, sizeof(*order));
	char *seen = calloc(lines, 1), *at, *next;
	uint64_t seed = lines;
	size_t visited = 0, line;

	CHECK_EQUAL(code_link(&code, order, &seed), 0);
	for (at = code.entry; at; at = next) {
		line = (size_t)(at - code.memory) / stride;
		CHECK(at >= code.memory && line < lines);
		CHECK_EQUAL((size_t)(at - code.memory) % stride, 0);
		if (line >= lines || seen[line]++)
			break;
		visited++;
		next = target(at);
	}
	/* It ended at the line that is no jump, having been everywhere. */
	CHECK(at != NULL || visited == lines);
	CHECK_EQUAL(visited, lines);
	code_run(&code, 0);
	code_run(&code, 1);
	code_run(&code, 1000);
	munmap(code.memory, code.bytes);
	free(order);
	free(seen);
}

TEST(every_line_once)
{
	static const size_t sizes[] = { 1, 2, 3, 23, 64, 1000 };

	SKIP_UNLESS_JUMPS();
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		jumps_are_one_cycle(sizes[i], 192);
		jumps_are_one_cycle(sizes[i], base() + 64);
		jumps_are_one_cycle(sizes[i], CODE_LINE_BYTES);
	}
}

static sigjmp_buf trapped;

static void on_trap(int signal)
{
	(void)signal;
	siglongjmp(trapped, 1);
}

TEST(every_line_runs)
{
	enum { LINES = 23 };
	struct sigaction action = { .sa_handler = on_trap }, old;
	/* What is used after the jump out of the handler must not live in a register. */
	static struct code code;
	static size_t line;
	uint32_t order[LINES];
	uint64_t seed = 1;

	SKIP_UNLESS_JUMPS();
	code = code_of(LINES, base() + 64);
	sigaction(SIGTRAP, &action, &old);
	for (line = 0; line < LINES; line++) {
		char *at = code.memory + line * code.stride;

		CHECK_EQUAL(code_link(&code, order, &seed), 0);
		CHECK_EQUAL(mprotect(code.memory, code.bytes, PROT_READ | PROT_WRITE), 0);
#if defined(__x86_64__)
		memcpy(at, "\xcc", 1);				/* int3 */
#else
		memcpy(at, "\x00\x00\x20\xd4", 4);		/* brk #0 */
#endif
		__builtin___clear_cache(at, at + CODE_LINE_BYTES);
		CHECK_EQUAL(mprotect(code.memory, code.bytes, PROT_READ | PROT_EXEC), 0);
		if (sigsetjmp(trapped, 1) == 0) {
			code_run(&code, 1);
			CHECK(!"a round passed over a line");
		}
	}
	sigaction(SIGTRAP, &old, NULL);
	munmap(code.memory, code.bytes);
}

TEST(orders_differ)
{
	struct code code = code_of(512, 64);
	uint32_t first[512], second[512];
	uint64_t seed = 1;

	SKIP_UNLESS_JUMPS();
	CHECK_EQUAL(code_link(&code, first, &seed), 0);
	CHECK_EQUAL(code_link(&code, second, &seed), 0);
	CHECK(memcmp(first, second, sizeof(first)) != 0);
	munmap(code.memory, code.bytes);
}

TEST(impossible_chains)
{
	struct code code = code_of(64, 64);
	uint32_t order[64];
	uint64_t seed = 1;

	if (!code_reach())
		CHECK_SKIP("no jumps for this CPU");
	errno = 0;
	/* None, and one more than there is room for. */
	for (size_t i = 0; i < 2; i++) {
		code.lines = i * (code.bytes / code.stride + 1);
		CHECK_EQUAL(code_link(&code, order, &seed), -1);
		CHECK_EQUAL(errno, EINVAL);
	}
	code.lines = 2;
	for (code.stride = 0; code.stride <= 24; code.stride += 24) {
		CHECK_EQUAL(code_link(&code, order, &seed), -1);
		CHECK_EQUAL(errno, EINVAL);
	}
	munmap(code.memory, code.bytes);
}

TEST(reaches_as_far_as_it_says)
{
	size_t reach = code_reach();
	struct code code;
	uint32_t order[2];
	uint64_t seed;

	SKIP_UNLESS_JUMPS();
	code = code_of(2, (reach - CODE_LINE_BYTES) / CODE_LINE_BYTES * CODE_LINE_BYTES);
	/* Both orders: the far jump forwards and backwards. */
	for (seed = 0; seed < 8; seed++) {
		uint64_t own = seed;

		CHECK_EQUAL(code_link(&code, order, &own), 0);
		if (check_failures)
			break;
		code_run(&code, 3);
	}
	code.stride += CODE_LINE_BYTES;
	CHECK_EQUAL(code_link(&code, order, &seed), -1);
	CHECK_EQUAL(errno, ERANGE);
	munmap(code.memory, code.bytes);
}

CHECK_MAIN
