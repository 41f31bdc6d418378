/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "code.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "clock.h"
#include "order.h"

/*
 * Direct jumps only: an indirect one would wait for the load of its target, which needs the
 * data TLB.  Distances are from the start of a line, and in bytes.
 */
#if defined(__x86_64__)
#define REACH ((size_t)INT32_MAX)

static void write_rel32(char *at, int64_t distance)
{
	const int32_t rel = (int32_t)distance;

	memcpy(at, &rel, sizeof(rel));
}

static void write_jump(char *line, int64_t distance)
{
	line[0] = (char)0xe9;			/* jmp rel32, from its own end */
	write_rel32(line + 1, distance - 5);
}

static void write_last(char *line, int64_t distance)
{
	memcpy(line, "\x48\xff\xcf"		/* dec %rdi */
		     "\x0f\x85????"		/* jnz rel32 */
		     "\xc3", 10);		/* ret */
	write_rel32(line + 5, distance - 9);
}
#elif defined(__aarch64__)
#define REACH ((size_t)128 << 20)

/* Instructions are little-endian on big-endian systems too. */
static void write_word(char *at, uint32_t word)
{
	for (unsigned i = 0; i < 4; i++)
		at[i] = (char)(word >> 8 * i);
}

static void write_jump(char *line, int64_t distance)
{
	write_word(line, 0x14000000 | ((uint32_t)(distance / 4) & 0x03ffffff));	/* b imm26 */
}

static void write_last(char *line, int64_t distance)
{
	write_word(line, 0xf1000400);			/* subs x0, x0, #1 */
	write_word(line + 4, 0x54000040);		/* b.eq to the ret */
	write_jump(line + 8, distance - 8);
	write_word(line + 12, 0xd65f03c0);		/* ret */
}
#else
#define REACH ((size_t)0)

static void write_jump(char *line, int64_t distance)
{
	(void)line, (void)distance;
}

static void write_last(char *line, int64_t distance)
{
	(void)line, (void)distance;
}
#endif

size_t code_reach(void)
{
	return REACH;
}

static int check_layout(const struct code *code)
{
	if (REACH == 0) {
		errno = ENOTSUP;
		return -1;
	}
	if (code->lines == 0 || code->stride == 0 || code->stride % CODE_LINE_BYTES ||
	    code->bytes / code->stride < code->lines - 1 ||
	    code->bytes - (code->lines - 1) * code->stride < CODE_LINE_BYTES) {
		errno = EINVAL;
		return -1;
	}
	if ((code->lines - 1) * code->stride > REACH - CODE_LINE_BYTES) {
		errno = ERANGE;
		return -1;
	}
	return 0;
}

int code_link(struct code *code, uint32_t *order, uint64_t *seed)
{
	const size_t n = code->lines;
	char *line, *next;

	if (check_layout(code) != 0 ||
	    mprotect(code->memory, code->bytes, PROT_READ | PROT_WRITE) != 0)
		return -1;
	order_shuffle(order, n, seed);
	for (size_t i = 0; i < n; i++) {
		line = code->memory + order[i] * code->stride;
		next = code->memory + order[i + 1 < n ? i + 1 : 0] * code->stride;
		if (i + 1 < n)
			write_jump(line, next - line);
		else
			write_last(line, next - line);
		__builtin___clear_cache(line, line + CODE_LINE_BYTES);
	}
	code->entry = code->memory + order[0] * code->stride;
	return mprotect(code->memory, code->bytes, PROT_READ | PROT_EXEC);
}

void code_run(const struct code *code, size_t rounds)
{
	void (*run)(size_t rounds);

	/* C has no cast from data to code. */
	memcpy(&run, &code->entry, sizeof(run));
	run(rounds ? rounds : 1);
}

double code_time(const struct code *code, size_t jumps)
{
	const size_t rounds = (jumps + code->lines - 1) / code->lines;
	uint64_t start;

	code_run(code, 1);
	start = clock_ns();
	code_run(code, rounds);
	return (double)(clock_ns() - start) / ((double)(rounds ? rounds : 1) * (double)code->lines);
}
