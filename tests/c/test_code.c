/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Does the chain of jumps visit every line once a round, return, and refuse what cannot be? */
#include "check.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena.h"
#include "code.h"
#include "emulated.h"

/* Since Linux 6.3: memory that was writable cannot become executable. */
#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

#define NO_JUMPS "no jumps for this CPU, or memory that was written cannot be executed here"

static size_t base(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

/* Memory for as many lines; no more of it is used than the pages that lines lie in. */
static struct code code_of(size_t lines, size_t stride)
{
	struct code code = { .stride = stride, .lines = lines };

	code.bytes = (lines * stride + base() - 1) / base() * base();
	code.memory = mmap(NULL, code.bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (code.memory == MAP_FAILED)
		abort();
	return code;
}

/* Can this machine run any chain at all? */
static int runs_here(void)
{
	struct code code = code_of(1, 64);
	uint32_t order[1];
	uint64_t seed = 1;
	int rc = code_link(&code, order, &seed);

	munmap(code.memory, code.bytes);
	return rc == 0 || (errno != ENOTSUP && errno != EACCES && errno != EPERM);
}

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

static void every_line_once(void)
{
	static const size_t sizes[] = { 1, 2, 3, 23, 64, 1000 };

	if (!runs_here())
		CHECK_SKIP(NO_JUMPS);
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

static void every_line_runs(void)
{
	enum { LINES = 23 };
	struct sigaction action = { .sa_handler = on_trap }, old;
	/* What is used after the jump out of the handler must not live in a register. */
	static struct code code;
	static size_t line;
	uint32_t order[LINES];
	uint64_t seed = 1;

	if (!runs_here())
		CHECK_SKIP(NO_JUMPS);
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

static void orders_differ(void)
{
	struct code code = code_of(512, 64);
	uint32_t first[512], second[512];
	uint64_t seed = 1;

	if (!runs_here())
		CHECK_SKIP(NO_JUMPS);
	CHECK_EQUAL(code_link(&code, first, &seed), 0);
	CHECK_EQUAL(code_link(&code, second, &seed), 0);
	CHECK(memcmp(first, second, sizeof(first)) != 0);
	munmap(code.memory, code.bytes);
}

static void never_writable_and_executable(void)
{
	struct code code = code_of(64, base() + 64);
	uint32_t order[64];
	uint64_t seed = 1;
	unsigned long start, end, at = (unsigned long)code.memory;
	char line[512], rights[8] = "";
	FILE *maps;

	if (!runs_here())
		CHECK_SKIP(NO_JUMPS);
	CHECK_EQUAL(code_link(&code, order, &seed), 0);
	maps = fopen("/proc/self/maps", "re");
	CHECK(maps != NULL);
	while (maps && fgets(line, sizeof(line), maps))
		if (sscanf(line, "%lx-%lx %4s", &start, &end, rights) == 3 && start <= at &&
		    at < end)
			break;
	if (maps)
		fclose(maps);
	CHECK(strncmp(rights, "r-x", 3) == 0);
	munmap(code.memory, code.bytes);
}

static void arena_stays_proven(void)
{
	enum { LINES = 200 };
	struct arena arena;
	struct code code = { .stride = base() + 64, .lines = LINES };
	uint32_t order[LINES];
	uint64_t seed = 1;

	if (!runs_here())
		CHECK_SKIP(NO_JUMPS);
	SKIP_UNLESS_BASE_PAGE_IS_REAL();
	CHECK_EQUAL(arena_open(&arena, ARENA_BASE, base(), 2 * LINES), 0);
	CHECK_EQUAL(arena_extend(&arena, 2 * LINES, UINT64_MAX), 0);
	code.memory = arena.memory;
	code.bytes = arena.pages * arena.page_bytes;
	CHECK_EQUAL(code_link(&code, order, &seed), 0);
	CHECK_EQUAL(arena_holds(&arena), 1);
	CHECK(code_time(&code, 10 * LINES) > 0);
	CHECK(code_time(&code, 0) > 0);
	code.lines = 3;
	CHECK_EQUAL(code_link(&code, order, &seed), 0);
	CHECK(code_time(&code, 1) > 0);
	arena_close(&arena);
}

static void impossible_chains(void)
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

static void reaches_as_far_as_it_says(void)
{
	size_t reach = code_reach();
	struct code code;
	uint32_t order[2];
	uint64_t seed;

	if (!runs_here())
		CHECK_SKIP(NO_JUMPS);
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

static void refusal_is_told(void)
{
	struct code code = code_of(2, 64);
	uint32_t order[2];
	uint64_t seed = 1;
	pid_t child;
	int status;

	if (!runs_here())
		CHECK_SKIP(NO_JUMPS);
	fflush(stdout);
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0)
			_exit(77);
		errno = 0;
		_exit(code_link(&code, order, &seed) == -1 && errno == EACCES ? 0 : 1);
	}
	CHECK_EQUAL(waitpid(child, &status, 0), child);
	munmap(code.memory, code.bytes);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		CHECK_SKIP("executable memory cannot be refused here (PR_SET_MDWE)");
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static const struct check_test tests[] = {
	{ "a chain jumps to every line once, and returns", every_line_once },
	{ "a round runs every line", every_line_runs },
	{ "two chains have different orders", orders_differ },
	{ "memory is never writable and executable", never_writable_and_executable },
	{ "an arena's pages stay what they are, and can be used again", arena_stays_proven },
	{ "chains that cannot be are refused", impossible_chains },
	{ "a chain reaches as far as it says, and no further", reaches_as_far_as_it_says },
	{ "a system that refuses executable memory is told of", refusal_is_told },
};

CHECK_MAIN(tests)
