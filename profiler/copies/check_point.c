/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "check_point.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>

#include "budget.h"
#include "instruction.h"
#include "step.h"

/* Instructions that the pilot is stepped at a time. */
#define STEPS 4000u
/* A stop takes about 20 us: a candidate that is hit more often than this is not watched any more. */
#define MOST_HITS 80u
/* Distinct words and instructions of a few times STEPS. */
#define MOST_VISITS 12000u

#define WORD 8u
#define PAGE 4096u
/* A page used as often is like any other. */
#define MANY_TIMES 64u
#define FEW_TIMES 8u

struct visit {
	uint64_t address;
	struct user_regs_struct registers;
	uint32_t times, page_times;	/* that anything in its page was visited */
	bool is_code;
};

/* What the pilot came by. */
struct visits {
	struct visit all[MOST_VISITS];
	unsigned count;
};

/* Of the check point that is looked for.  Too large for the stack; there is one thread. */
static struct visits steps;

static void visit(struct visits *visits, uint64_t address, bool is_code,
		  const struct user_regs_struct *registers)
{
	for (unsigned i = 0; i < visits->count; i++) {
		struct visit *each = &visits->all[i];

		if (each->address == address && each->is_code == is_code) {
			each->times++;
			return;
		}
	}
	if (visits->count < sizeof(visits->all) / sizeof(visits->all[0]))
		visits->all[visits->count++] = (struct visit){
			.address = address, .registers = *registers, .times = 1, .is_code = is_code,
		};
}

static bool decode_at(const struct copy *pilot, uint64_t address, struct instruction *instruction)
{
	uint8_t code[16];
	size_t bytes = sizeof(code);

	/* It may be the last of its mapping. */
	while (bytes && copy_read(pilot, address, code, bytes) < 0)
		bytes--;
	return bytes && instruction_decode(instruction, code, bytes, address);
}

/* Returns 1 when a system call is next, or what cannot be stepped; 0; or -1 with errno. */
static int step_once(struct visits *visits, const struct copy *pilot,
		     struct user_regs_struct *registers)
{
	uint64_t addresses[STEP_MOST_REFERENCES] = { 0 };
	const struct user_regs_struct before = *registers;
	struct instruction instruction;
	int rc;

	if (!decode_at(pilot, registers->rip, &instruction) ||
	    instruction.flow == FLOW_SYSTEM_CALL || instruction.flow == FLOW_REFUSE)
		return 1;
	/* Each repetition is a step. */
	if (instruction.repeats && registers->rcx > STEPS)
		return 1;
	rc = step(pilot, &instruction, registers, addresses);
	if (rc)
		return rc < 0 ? -1 : 1;
	visit(visits, before.rip, true, &before);
	for (unsigned i = 0; !instruction.repeats && i < instruction.operand_count; i++)
		if (addresses[i])
			visit(visits, addresses[i] & ~(uint64_t)(WORD - 1), false, registers);
	return 0;
}

/* Is what a candidate would be known already? */
static bool is_taken(const struct check_point *check, const struct visit *visit)
{
	for (unsigned i = 0; i < check->count; i++)
		if (check->candidates[i].address == visit->address)
			return true;
	return false;
}

static void count_pages(struct visits *visits)
{
	for (unsigned i = 0; i < visits->count; i++) {
		struct visit *each = &visits->all[i];

		each->page_times = 0;
		for (unsigned k = 0; k < visits->count; k++)
			if (visits->all[k].address / PAGE == each->address / PAGE)
				each->page_times += visits->all[k].times;
	}
}

/*
 * Instructions come last, and words near the stack pointer before them.  Others are the rarer the
 * less their page is used: what an interpreter uses in every round of a long loop is close together.
 */
static uint64_t rarity(const struct visit *visit, uint64_t *random)
{
	const uint64_t stack = visit->registers.rsp;
	const uint64_t near_stack = UINT64_C(1) << 20;
	const uint64_t at = visit->address;

	/* A word is often read and written, or its object is counted: it stops at the first of these. */
	if (visit->times > (visit->is_code ? 1 : FEW_TIMES))
		return 0;
	if (visit->is_code)
		return 1 + budget_random(random, 100);
	if (at + near_stack > stack && at < stack + near_stack)
		return 101 + budget_random(random, 100);
	return 201 + budget_random(random, 100) +
	       100 * (visit->page_times < MANY_TIMES ? MANY_TIMES - visit->page_times : 0);
}

void check_point_fill(struct check_point *check, uint64_t *random)
{
	while (check->count < CHECK_POINT_CANDIDATES) {
		const struct visit *best = NULL;
		uint64_t most = 0;

		/* Not the first: all arms are there when they start. */
		for (unsigned i = 1; i < steps.count; i++) {
			const uint64_t value = rarity(&steps.all[i], random);

			if (value > most && !is_taken(check, &steps.all[i])) {
				best = &steps.all[i];
				most = value;
			}
		}
		if (!best)
			return;
		check->candidates[check->count++] = (struct check_candidate){
			.address = best->address, .is_code = best->is_code,
			.registers = best->registers,
		};
	}
}

void check_point_begin(struct check_point *check)
{
	steps.count = check->count = 0;
}

int check_point_step(const struct copy *pilot, struct user_regs_struct *registers)
{
	for (unsigned i = 0; i < STEPS; i++) {
		const int rc = step_once(&steps, pilot, registers);

		if (rc < 0)
			return -1;
		if (rc)
			break;
	}
	count_pages(&steps);
	return 0;
}

static void drop(struct visits *visits, const struct check_candidate *candidate)
{
	for (unsigned i = 0; i < visits->count; i++)
		if (visits->all[i].address == candidate->address)
			visits->all[i].times = MANY_TIMES;
}

void check_point_keep(struct check_point *check)
{
	const unsigned before = check->count;

	check->count = 0;
	for (unsigned i = 0; i < before; i++) {
		const struct check_candidate *candidate = &check->candidates[i];

		if (candidate->hits)
			drop(&steps, candidate);
		else
			check->candidates[check->count++] = *candidate;
	}
}

static int poke(pid_t pid, unsigned number, uint64_t value)
{
	const size_t offset = offsetof(struct user, u_debugreg) + number * sizeof(value);

	return ptrace(PTRACE_POKEUSER, pid, (void *)offset, (void *)(uintptr_t)value) < 0 ? -1 : 0;
}

/* DR6 says which were hit, DR7 which are watched. */
enum { DR_STATUS = 6, DR_CONTROL = 7 };

int check_point_watch(const struct check_point *check, pid_t pid)
{
	/* Accesses to 8 bytes; executing has zeros. */
	const uint64_t data = 0xb;
	uint64_t control = 0;

	if (poke(pid, DR_CONTROL, 0) < 0)
		return -1;
	for (unsigned i = 0; i < check->count; i++) {
		const struct check_candidate *candidate = &check->candidates[i];

		if (!candidate->watched)
			continue;
		if (poke(pid, i, candidate->address) < 0)
			return -1;
		control |= UINT64_C(1) << 2 * i;
		if (!candidate->is_code)
			control |= data << (16 + 4 * i);
	}
	return poke(pid, DR_CONTROL, control);
}

void check_point_reset(struct check_point *check)
{
	for (unsigned i = 0; i < check->count; i++) {
		check->candidates[i].watched = true;
		check->candidates[i].hits = 0;
	}
}

void check_point_disarm(pid_t pid)
{
	poke(pid, DR_CONTROL, 0);
}

bool check_point_same(const struct user_regs_struct *one, const struct user_regs_struct *other)
{
	return one->rip == other->rip && one->rsp == other->rsp && one->rax == other->rax &&
	       one->rbx == other->rbx && one->rcx == other->rcx && one->rdx == other->rdx &&
	       one->rsi == other->rsi && one->rdi == other->rdi && one->rbp == other->rbp &&
	       one->r8 == other->r8 && one->r9 == other->r9 && one->r10 == other->r10 &&
	       one->r11 == other->r11 && one->r12 == other->r12 && one->r13 == other->r13 &&
	       one->r14 == other->r14 && one->r15 == other->r15;
}

enum check_hit check_point_stopped(struct check_point *check, pid_t pid,
				   const struct user_regs_struct *registers)
{
	const size_t status = offsetof(struct user, u_debugreg) + DR_STATUS * sizeof(uint64_t);
	long hit;
	bool dropped = false, any = false, watched = false;

	errno = 0;
	hit = ptrace(PTRACE_PEEKUSER, pid, (void *)status, NULL);
	if (errno)
		return CHECK_NO_HIT;
	poke(pid, DR_STATUS, 0);
	for (unsigned i = 0; i < check->count; i++) {
		struct check_candidate *candidate = &check->candidates[i];

		if (!(hit >> i & 1) || !candidate->watched)
			continue;
		any = true;
		candidate->hits++;
		if (check_point_same(registers, &candidate->registers))
			return CHECK_HIT;
		if (candidate->hits >= MOST_HITS) {
			candidate->watched = false;
			dropped = true;
		}
	}
	if (!any)
		return CHECK_NO_HIT;
	for (unsigned i = 0; i < check->count; i++)
		watched = watched || check->candidates[i].watched;
	if (!watched)
		return CHECK_TIGHT;
	if (dropped && check_point_watch(check, pid) < 0)
		return CHECK_NO_HIT;
	return CHECK_OTHER;
}
