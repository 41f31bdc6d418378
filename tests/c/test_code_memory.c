/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is the memory of jumps never writable and executable at once, and still the arena's? */
#include "check.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "arena.h"
#include "emulated.h"
#include "jumps.h"

/* Since Linux 6.3: memory that was writable cannot become executable. */
#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

TEST(never_writable_and_executable)
{
	struct code code = code_of(64, base() + 64);
	uint32_t order[64];
	uint64_t seed = 1;
	unsigned long start, end, at = (unsigned long)code.memory;
	char line[512], rights[8] = "";
	FILE *maps;

	SKIP_UNLESS_JUMPS();
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

TEST(arena_stays_proven)
{
	enum { LINES = 200 };
	struct arena arena;
	struct code code = { .stride = base() + 64, .lines = LINES };
	uint32_t order[LINES];
	uint64_t seed = 1;

	SKIP_UNLESS_JUMPS();
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

TEST(refusal_is_reported)
{
	struct code code = code_of(2, 64);
	uint32_t order[2];
	uint64_t seed = 1;
	pid_t child;
	int status;

	SKIP_UNLESS_JUMPS();
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

CHECK_MAIN
