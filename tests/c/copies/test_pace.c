/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Is the work that an arm did natively found again where its copy is followed? */
#include <stdint.h>
#include <sys/mman.h>

#include "check.h"
#include "follow.h"
#include "injected.h"
#include "pace.h"
#include "translator.h"

/* Where the programs have their table, and its words. */
#define TABLE UINT64_C(0x200000000000)
#define WORDS (UINT64_C(1) << 22)
#define MOST_INSTRUCTIONS 20000000u
#define FOLLOWED_NS UINT64_C(20000000000)

static uint64_t *table(int flags)
{
	uint64_t *const words = (uint64_t *)TABLE;

	return mmap(words, WORDS * sizeof(*words), PROT_READ | PROT_WRITE,
		    flags | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0) == words ? words : NULL;
}

static void say(int output)
{
	if (write(output, "x", 1) != 1)
		_exit(1);
}

/* Each word is updated once before any is again. */
static uint64_t next_index(uint64_t index)
{
	return (index * 1664525 + 1013904223) % WORDS;
}

static void update(int output, uint64_t *words)
{
	if (!words)
		_exit(1);
	say(output);
	for (uint64_t index = 1;; index = next_index(index))
		words[index] += index;
}

static void updates(int output)
{
	update(output, table(MAP_PRIVATE));
}

static void shared_updates(int output)
{
	update(output, table(MAP_SHARED));
}

/* The same word again and again. */
static void spins(int output)
{
	say(output);
	for (volatile uint64_t i = 0;;)
		(void)i;
}

static bool executed(void *context, const struct code_block *block, const uint64_t *addresses,
		     uint64_t next)
{
	struct pace *pace = context;

	(void)next;
	pace_executed(pace, block, addresses);
	/* Beyond the second place, to see that it comes once. */
	return pace->instructions < MOST_INSTRUCTIONS;
}

/* Pace of a copy of the program; whether there is one. */
static bool pace_of(void (*program)(int), struct pace *pace)
{
	const struct watcher watcher = { .executed = executed, .context = pace };
	const struct follow_limits limits = { .time_ns = FOLLOWED_NS };
	struct injector_request request;
	struct injector_answer answer;
	struct translator *translator = translator_make();
	struct followed followed;
	struct injected injected;
	char byte;

	*pace = (struct pace){ .cpu_ns = 0 };
	CHECK(translator != NULL);
	CHECK_EQUAL(injected_start(&injected, program), 0);
	CHECK_EQUAL(read(injected.from_program, &byte, 1), 1);
	injected_nap(20000);
	request = injected_request(&injected);
	CHECK_EQUAL(injector_ask(injected.socket, &request, &answer), 0);
	CHECK_EQUAL(answer.refusal, INJECTED);
	if (answer.refusal == INJECTED) {
		CHECK_EQUAL(copy_take(&answer.copy[0]), 0);
		pace_run(pace, &answer.copy[0]);
		if (pace->cpu_ns)
			CHECK_EQUAL(follow(translator, &answer.copy[0], NULL, &limits, &watcher, &followed), 0);
		copy_kill(&answer.copy[0]);
	}
	kill(injected.program, SIGKILL);
	injected_end(&injected);
	translator_free(translator, &watcher);
	return pace_instructions(pace) > 0;
}

/* Of the first update at the place. */
static uint64_t index_at(const struct place *place)
{
	for (unsigned i = 0; i < place->count; i++)
		if (place->all[i].address >= TABLE &&
		    place->all[i].address < TABLE + WORDS * sizeof(uint64_t))
			return (place->all[i].address - TABLE) / sizeof(uint64_t);
	return WORDS;
}

static void test_instructions_are_those_between_the_places(void)
{
	struct pace pace;
	uint64_t index, goal, updates_done = 0, instructions, each;
	bool known = false;

	/* On a busy machine the arm may run for longer than its copy is followed. */
	for (unsigned i = 0; i < 10 && !known; i++)
		known = pace_of(updates, &pace);
	CHECK(known);
	if (!known)
		return;
	index = index_at(&pace.before);
	goal = index_at(&pace.after);
	CHECK(index < WORDS);
	CHECK(goal < WORDS);
	for (; index != goal && updates_done < WORDS; updates_done++)
		index = next_index(index);
	instructions = pace_instructions(&pace);
	/* All updates take as many instructions; a place is known to the block. */
	each = (instructions + updates_done / 2) / updates_done;
	CHECK(each >= 3);
	CHECK(instructions + 2 * CODE_BLOCK_MOST_INSTRUCTIONS >= each * updates_done);
	CHECK(instructions <= each * updates_done + 2 * CODE_BLOCK_MOST_INSTRUCTIONS);
	CHECK(pace.cpu_ns >= UINT64_C(900000));
}

static void test_places_that_look_alike_are_lost(void)
{
	struct pace pace;

	CHECK(!pace_of(spins, &pace));
}

static void test_shared_memory_is_left_alone(void)
{
	struct pace pace;

	CHECK(!pace_of(shared_updates, &pace));
	CHECK_EQUAL(pace.cpu_ns, 0);
}

static const struct check_test tests[] = {
	{ "instructions are those between the places", test_instructions_are_those_between_the_places },
	{ "places that look alike are lost", test_places_that_look_alike_are_lost },
	{ "shared memory is left alone", test_shared_memory_is_left_alone },
};

CHECK_MAIN(tests)
