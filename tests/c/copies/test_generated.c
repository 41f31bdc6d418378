/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Are random instructions the same when they are single-stepped and when their translation runs?
 *
 *   test_generated [SEED [CASES]]
 *
 * Each case makes one piece of code, instruction by instruction, in a child that executes each at
 * once; one that faults is taken back.  Each is executed a second time with all memory changed that
 * it is said not to read: the outcome must be the same.  Then the code is followed in two other
 * children, the second time with what was translated for the first: registers, flags, vectors,
 * memory and each reference must be those of the single steps.
 */
#include "check.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "follow.h"
#include "generated.h"
#include "generated_make.h"
#include "step.h"
#include "traced.h"
#include "translator.h"

#define SEED UINT64_C(1)
#define CASES 80u
#define INSTRUCTIONS 250u

/* They were different once. */
static const uint64_t found[] = { 331, 2071, 50043, 50351, 50492 };

static uint64_t first_seed = SEED;
static unsigned cases = CASES;

static void show_at(const struct run *run, uint64_t address)
{
	const uint64_t offset = address - run->maker.world;
	struct instruction it;

	if (offset < CODE_BYTES - 16 && instruction_decode(&it, run->code + offset, 16, address))
		show_instruction("instruction", &it);
}

static bool compare_lists(const struct run *run, const struct list *followed)
{
	const struct list *stepped = &run->list;
	const size_t i = list_common(stepped, followed);

	if (i == stepped->count && i == followed->count)
		return true;
	list_show_both(stepped, followed, i);
	for (size_t k = i > 2 ? i - 2 : 0; k < i + 8 && k < stepped->count; k++)
		if (stepped->all[k].kind == EXECUTED)
			show_at(run, stepped->all[k].instruction);
	return false;
}

/* Which instructions wrote a byte of the arena? */
static void show_writers(const struct run *run, size_t byte)
{
	const uint64_t at = run->maker.world + ARENA + byte;

	for (size_t i = 0; i < run->list.count; i++) {
		const struct made *made = &run->list.all[i];

		if (made->kind != EXECUTED && made->kind != REFERENCE_LOAD && at >= made->address &&
		    at - made->address < made->bytes)
			show_at(run, made->instruction);
	}
}

static bool compare_state(const struct run *run, const struct state *followed)
{
	const struct state *stepped = &run->now;
	bool same = true;

	for (int i = 0; i < 16; i++) {
		const uint64_t a = value_of(&stepped->registers, i);
		const uint64_t b = value_of(&followed->registers, i);

		if (a == b)
			continue;
		printf("# register %d: stepped %#llx, followed %#llx\n", i, (unsigned long long)a,
		       (unsigned long long)b);
		same = false;
	}
	if ((stepped->registers.eflags ^ followed->registers.eflags) & ~UINT64_C(0x10100)) {
		printf("# flags: stepped %#llx, followed %#llx\n", stepped->registers.eflags,
		       followed->registers.eflags);
		same = false;
	}
	for (size_t i = 0; i < stepped->vectors.bytes; i++)
		if (is_compared(i) && stepped->vectors.image[i] != followed->vectors.image[i]) {
			printf("# vectors: byte %zu\n", i);
			same = false;
			break;
		}
	for (size_t i = 0; i < ARENA_BYTES; i++)
		if (stepped->arena[i] != followed->arena[i]) {
			printf("# memory: byte %#zx, %#x, followed %#x\n", i, stepped->arena[i],
			       followed->arena[i]);
			show_writers(run, i);
			same = false;
			break;
		}
	return same;
}

static bool follow_once(struct translator *translator, const struct run *run)
{
	static struct state end;
	struct list list = { .count = 0 };
	const struct watcher watcher = { .executed = list_executed, .context = &list };
	const struct follow_limits limits = { .time_ns = UINT64_C(60000000000) };
	struct xstate vectors = run->start.vectors;
	struct followed followed;
	struct copy copy;
	bool same;

	if (traced_start(&copy, run->maker.world, &run->start.registers) < 0 ||
	    traced_set(&copy, &vectors) < 0 ||
	    copy_write(&copy, run->maker.world, run->code, CODE_BYTES) < 0 ||
	    copy_write(&copy, run->maker.world + POINTERS, run->pointers, sizeof(run->pointers)) < 0 ||
	    copy_write(&copy, run->maker.world + ARENA, run->start.arena, ARENA_BYTES) < 0) {
		copy_kill(&copy);
		return false;
	}
	follow(translator, &copy, NULL, &limits, &watcher, &followed);
	if (followed.end != FOLLOW_CALL || followed.call != LAST_CALL)
		printf("# ended by %d (%ld) at %#llx, errno %d\n", (int)followed.end, followed.call,
		       (unsigned long long)followed.address, errno);
	same = followed.end == FOLLOW_CALL && state_get(&copy, run->maker.world, &end) == 0;
	same = compare_lists(run, &list) && same;
	same = same && compare_state(run, &end);
	free(list.all);
	copy_kill(&copy);
	return same;
}

static bool run_case(uint64_t seed, struct forms *forms)
{
	static struct run run;
	struct translator *translator = translator_make();
	bool same;

	same = translator && run_make(&run, seed, INSTRUCTIONS, forms) == 0;
	if (same)
		same = follow_once(translator, &run) && follow_once(translator, &run);
	if (!same)
		printf("# seed %llu: different\n", (unsigned long long)seed);
	free(run.list.all);
	translator_free(translator, NULL);
	return same;
}

TEST(random_instructions_single_stepped_and_translated)
{
	static struct forms forms;
	unsigned different = 0;

	if (traced_map(WORLD_LOW) < 0 || traced_map(WORLD_HIGH) < 0)
		CHECK_SKIP("its addresses are in use");
	for (unsigned i = 0; i < cases; i++)
		different += !run_case(first_seed + i, &forms);
	for (unsigned i = 0; i < sizeof(found) / sizeof(found[0]); i++)
		different += !run_case(found[i], &forms);
	printf("# seeds from %llu: %u cases, %lu instructions, %lu references, %u mnemonics, %u forms\n",
	       (unsigned long long)first_seed, cases, forms.instructions, forms.references,
	       forms_mnemonics(&forms), forms.count);
	CHECK_EQUAL(different, 0);
	CHECK(forms.instructions > cases * (INSTRUCTIONS / 2));
}


int main(int argc, char **argv)
{
	if (argc > 1)
		first_seed = strtoull(argv[1], NULL, 0);
	if (argc > 2)
		cases = (unsigned)strtoul(argv[2], NULL, 0);
	setvbuf(stdout, NULL, _IOLBF, 0);
	return check_run();
}
