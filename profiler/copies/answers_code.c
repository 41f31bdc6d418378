/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Executed in an arm: it must not call anything, nor have data, outside of its section; it must not
 * use vector registers, which are the program's.
 */
#include "answers_code.h"

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "calls.h"
#include "recorder.h"

#define CODE __attribute__((section("answers_code"), used, noinline))
#define SECOND_NS 1000000000
/* An arm that is forgotten ends. */
#define LIFE_S 60

/* struct ucontext of the kernel: the general registers, by their order in it. */
enum { UC_R8, UC_R9, UC_R10, UC_R11, UC_R12, UC_R13, UC_R14, UC_R15, UC_RDI, UC_RSI, UC_RBP,
       UC_RBX, UC_RDX, UC_RAX, UC_RCX, UC_RSP, UC_RIP };
#define UC_REGISTERS 40u

struct time_words {
	int64_t s, ns;
};

__asm__(
	"	.pushsection answers_code, \"ax\", @progbits\n"
	"	.globl answers_return\n"
	"	.hidden answers_return\n"
	"answers_return:\n"
	"	mov $15, %eax\n"	/* rt_sigreturn */
	"	syscall\n"
	"	.popsection\n");

static inline __attribute__((always_inline)) struct answers *answers_here(void)
{
	uintptr_t start;

	__asm__("lea __start_answers_code(%%rip), %0" : "=r"(start));
	return (struct answers *)(start + ANSWERS_STATE);
}

static inline __attribute__((always_inline)) int64_t
make_call(int64_t number, uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e, uint64_t f)
{
	register uint64_t r10 __asm__("r10") = d;
	register uint64_t r8 __asm__("r8") = e;
	register uint64_t r9 __asm__("r9") = f;
	int64_t result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return result;
}

static inline __attribute__((always_inline)) void
copy_bytes(uint64_t to, const uint8_t *from, uint64_t bytes)
{
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

static CODE void rest(struct answers *answers, enum answers_end end, int64_t at_call)
{
	const struct time_words life = { LIFE_S, 0 };

	answers->at_call = at_call;
	/* Whoever sees this also sees everything before it. */
	__atomic_store_n(&answers->end, (uint32_t)end, __ATOMIC_RELEASE);
	make_call(SYS_nanosleep, (uint64_t)(uintptr_t)&life, 0, 0, 0, 0, 0);
	make_call(SYS_exit_group, 0, 0, 0, 0, 0, 0);
}

static inline __attribute__((always_inline)) bool
is_ours(const struct answers *answers, uint64_t start, uint64_t bytes)
{
	return start < answers->start + answers->bytes && answers->start < start + bytes;
}

/*
 * Calls that change mappings are made for real, with the same addresses.  Nothing in an arm is
 * shared that could be written.  Returns whether that is possible; *real: it is, and was done.
 */
static CODE bool change_memory(const struct answers *answers, const struct recorded_call *call,
			       const uint64_t *r, bool *real)
{
	const uint64_t place = (uint64_t)call->result;
	uint64_t flags = r[UC_R10];
	int64_t result;

	*real = true;
	if (call->call == SYS_brk)
		return make_call(SYS_brk, r[UC_RDI], 0, 0, 0, 0, 0) == call->result;
	if (call->call == SYS_mmap && call->result >= 0) {
		if (!(flags & MAP_ANONYMOUS) || (flags & MAP_TYPE) != MAP_PRIVATE ||
		    flags & (MAP_HUGETLB | MAP_LOCKED) || is_ours(answers, place, r[UC_RSI]))
			return false;
		result = make_call(SYS_mmap, place, r[UC_RSI], r[UC_RDX], flags | MAP_FIXED, UINT64_MAX, 0);
		return result == call->result;
	}
	if (call->call == SYS_mremap && call->result >= 0) {
		if (is_ours(answers, place, r[UC_RDX]) || is_ours(answers, r[UC_RDI], r[UC_RSI]))
			return false;
		if (place != r[UC_RDI])
			flags |= MREMAP_FIXED | MREMAP_MAYMOVE;
		result = make_call(SYS_mremap, r[UC_RDI], r[UC_RSI], r[UC_RDX], flags, place, 0);
		return result == call->result;
	}
	if ((call->call == SYS_munmap || call->call == SYS_mprotect || call->call == SYS_madvise) &&
	    call->result >= 0) {
		if (is_ours(answers, r[UC_RDI], r[UC_RSI]) ||
		    (call->call == SYS_madvise && !calls_advice_is_private(r[UC_RDX])))
			return false;
		make_call(call->call, r[UC_RDI], r[UC_RSI], r[UC_RDX], 0, 0, 0);
		return true;
	}
	*real = false;
	return true;
}

static CODE void write_outputs(const struct recorded_call *call)
{
	const struct recorded_output *outputs = (const struct recorded_output *)(call + 1);
	const uint8_t *bytes = (const uint8_t *)(outputs + call->output_count);

	for (uint32_t i = 0; i < call->output_count; i++) {
		copy_bytes(outputs[i].address, bytes, outputs[i].bytes);
		bytes += (outputs[i].bytes + 7) & ~UINT64_C(7);
	}
}

static CODE void mark(struct answers *answers)
{
	struct time_words now = { 0, 0 };

	if (answers->marks == ANSWERS_MARKS)
		return;
	/* It has one thread.  With a CPU time limit, the process's clock moves only at ticks. */
	make_call(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (uint64_t)(uintptr_t)&now, 0, 0, 0, 0);
	answers->mark_ns[answers->marks++] = (uint64_t)(now.s * SECOND_NS + now.ns);
}

static inline __attribute__((always_inline)) bool
is_same(const struct recorded_call *call, const uint64_t *r)
{
	return call->call == (int64_t)r[UC_RAX] && call->arguments[0] == r[UC_RDI] &&
	       call->arguments[1] == r[UC_RSI];
}

/* Whether it is made depends on what other threads and processes do at that time. */
static inline __attribute__((always_inline)) bool is_for_others(int64_t call)
{
	return call == SYS_futex || call == SYS_sched_yield || call == SYS_semop ||
	       call == SYS_semtimedop;
}

/* The record of this call.  Those before it that the arm had no need to make are passed over. */
static CODE const struct recorded_call *find_record(struct answers *answers, const uint64_t *r)
{
	uint64_t next = answers->next;

	while (next < answers->records_end) {
		const struct recorded_call *call = (const struct recorded_call *)(uintptr_t)next;

		if (is_same(call, r)) {
			answers->next = next;
			return call;
		}
		if (!is_for_others(call->call))
			break;
		next += call->record_bytes;
	}
	return NULL;
}

/* A call that the original had no need to make: no process waits for the arm, nor it for one. */
static CODE bool answer_others(uint64_t *r)
{
	const uint64_t command = r[UC_RSI] & 0x7f;	/* FUTEX_CMD_MASK, without the clock */

	if (r[UC_RAX] == SYS_futex && (command == 0 || command == 9))
		r[UC_RAX] = (uint64_t)-11;	/* FUTEX_WAIT: EAGAIN */
	else if (is_for_others((int64_t)r[UC_RAX]))
		r[UC_RAX] = 0;
	else
		return false;
	return true;
}

CODE void answers_at_signal(int signal, const void *information, void *context)
{
	struct answers *answers = answers_here();
	uint64_t *r = (uint64_t *)(void *)((char *)context + UC_REGISTERS);
	const struct recorded_call *call;
	bool real;

	(void)information;
	if (signal != SIGSYS)
		rest(answers, ANSWERS_SIGNAL, signal);
	if (answers->next >= answers->records_end)
		rest(answers, ANSWERS_ALL, (int64_t)r[UC_RAX]);
	call = find_record(answers, r);
	if (!call && answer_others(r))
		return;
	/* An arm that went another way has other arguments. */
	if (!call || !change_memory(answers, call, r, &real))
		rest(answers, ANSWERS_OTHER, (int64_t)r[UC_RAX]);
	if (!real)
		write_outputs(call);
	r[UC_RAX] = (uint64_t)call->result;
	answers->next += call->record_bytes;
	answers->now_ns = call->at_ns;
	answers->calls++;
	if (answers->calls % answers->mark_every == 0)
		mark(answers);
}

static CODE bool time_of(int clock, struct time_words *time)
{
	const struct answers *answers = answers_here();
	int64_t ns;

	if (clock < 0 || clock >= (int)ANSWERS_CLOCKS || clock == CLOCK_PROCESS_CPUTIME_ID ||
	    clock == CLOCK_THREAD_CPUTIME_ID)
		return false;
	ns = (int64_t)answers->now_ns + answers->ahead_ns[clock];
	time->s = ns / SECOND_NS;
	time->ns = ns % SECOND_NS;
	return true;
}

/* The program's time is that of its last call. */
CODE int answers_clock_gettime(int clock, int64_t *time)
{
	struct time_words now;

	if (!time_of(clock, &now))
		return (int)make_call(SYS_clock_gettime, (uint64_t)clock, (uint64_t)(uintptr_t)time, 0,
				      0, 0, 0);
	time[0] = now.s;
	time[1] = now.ns;
	return 0;
}

CODE int answers_gettimeofday(int64_t *time, int32_t *zone)
{
	struct time_words now;

	if (time && time_of(CLOCK_REALTIME, &now)) {
		time[0] = now.s;
		time[1] = now.ns / 1000;
	}
	if (zone)
		zone[0] = zone[1] = 0;
	return 0;
}

CODE int64_t answers_time(int64_t *time)
{
	struct time_words now = { 0, 0 };

	time_of(CLOCK_REALTIME, &now);
	if (time)
		*time = now.s;
	return now.s;
}
