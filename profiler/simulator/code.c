/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "code.h"
#include "current.h"

#include "pub_tool_libcbase.h"
#include "pub_tool_mallocfree.h"
#include "pub_tool_options.h"
#include "pub_tool_stacktrace.h"

#define FIRST_CAPACITY 1024u
/*
 * At first a stack is sampled once in this number of data walks, which doubles after many
 * samples, so that sampling costs little time.
 */
#define FIRST_INTERVAL 64u
#define SAMPLES_OF_AN_INTERVAL 1024u
#define MOST_FRAMES 64u			/* or fewer, by --num-callers */

struct code_table code_table;
struct stack_table stack_table;

static struct code_misses *last;	/* found */
static struct stack_walks *last_stack;
static UInt interval, samples;
static Long due;			/* walks until the next sample */
static ULong since[TLB_SIZES];		/* walks since the last sample */
static ULong random_state;

static struct code_misses *slot_of(ULong instruction, UInt epoch)
{
	UInt mask = code_table.capacity - 1;

	for (ULong i = ((instruction ^ epoch) * 0x9e3779b97f4a7c15ULL) >> 32;; i++) {
		struct code_misses *code = &code_table.code[i & mask];

		if (!code->used ||
		    (code->instruction == instruction && code->epoch.n == epoch))
			return code;
	}
}

static void grow(void)
{
	struct code_misses *old = code_table.code;
	UInt count = code_table.capacity;

	code_table.capacity = count ? 2 * count : FIRST_CAPACITY;
	code_table.code = VG_(calloc)("tlbsim.code", code_table.capacity,
				      sizeof(*old));
	for (UInt i = 0; i < count; i++)
		if (old[i].used)
			*slot_of(old[i].instruction, old[i].epoch.n) = old[i];
	VG_(free)(old);
}

static struct code_misses *find(ULong instruction)
{
	/* What is at an address changes as objects are mapped and unmapped. */
	DiEpoch epoch = VG_(current_DiEpoch)();
	struct code_misses *code;

	if (last && last->instruction == instruction && last->epoch.n == epoch.n)
		return last;
	code = slot_of(instruction, epoch.n);
	if (!code->used) {
		if (2 * code_table.count >= code_table.capacity) {
			grow();
			code = slot_of(instruction, epoch.n);
		}
		code->used = True;
		code->instruction = instruction;
		code->epoch = epoch;
		code_table.count++;
	}
	return last = code;
}

/* The walks since the last sample belong to this one. */
static void note_stack(ExeContext *stack)
{
	ULong at = ((Addr)stack * 0x9e3779b97f4a7c15ULL) >> 32;
	struct stack_walks *found;

	for (;; at++) {
		found = &stack_table.stack[at % STACK_SLOTS];
		if (found->stack == stack || !found->stack)
			break;
	}
	if (!found->stack) {
		if (stack_table.count == MOST_STACKS)
			found = &stack_table.other;
		else
			stack_table.count++;
	}
	if (found != &stack_table.other)
		found->stack = stack;
	last_stack = found;
	for (Int size = 0; size < TLB_SIZES; size++) {
		found->walks[size] += since[size];
		since[size] = 0;
	}
}

static void choose_next(void)
{
	/* Marsaglia's xorshift64, so that no rhythm of the program coincides. */
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	if (++samples % SAMPLES_OF_AN_INTERVAL == 0)
		interval *= 2;
	due = interval / 2 + (Long)(random_state % interval);
}

static void sample(ULong instruction)
{
	const struct tlb_model *model = current.model;
	const UInt kept = (UInt)VG_(clo_backtrace_size);
	Addr frames[MOST_FRAMES];
	UInt count = VG_(get_StackTrace_with_deltas)(
		current.thread, frames, kept < MOST_FRAMES ? kept : MOST_FRAMES,
		NULL, NULL, 0,
		current.run->stack_delta);

	/* While references are queued, the one that missed was made slightly earlier. */
	if (!count || !model->batching)
		frames[0] = instruction;
	count += !count;
	note_stack(VG_(make_ExeContext_from_StackTrace)(frames, count));
	choose_next();
}

void code_missed(ULong instruction, enum tlb_size size, enum tlb_side side, bool walk)
{
	misses_add(&find(instruction)->counted[size][misses_side(side)], walk);
	if (!walk)
		return;
	since[size]++;
	/* The thread's registers are up to date only while its code accesses data. */
	if (size == TLB_BASE && --due <= 0 && side != TLB_FETCH && current.run)
		sample(instruction);
}

void code_settle(void)
{
	for (Int size = 0; size < TLB_SIZES; size++) {
		last_stack->walks[size] += since[size];
		since[size] = 0;
	}
}

void code_start(void)
{
	VG_(free)(code_table.code);
	VG_(memset)(&code_table, 0, sizeof(code_table));
	grow();
	last = NULL;
	VG_(memset)(&stack_table, 0, sizeof(stack_table));
	last_stack = &stack_table.other;
	VG_(memset)(since, 0, sizeof(since));
	interval = FIRST_INTERVAL;
	samples = 0;
	due = 1;
	random_state = 88172645463325252ULL;
}
