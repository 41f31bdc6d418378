/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Do locks and counters that threads and processes share stay right? */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/rseq.h>
#include <sys/wait.h>
#include <unistd.h>

#include "torture.h"

struct locked {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	unsigned long counter;
	_Atomic unsigned long by_each;
	unsigned turn;
};

static struct locked *make_lock(int protocol, int robust, int shared)
{
	struct locked *locked = mmap(NULL, sizeof(*locked), PROT_READ | PROT_WRITE,
				     (shared ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t attributes;
	pthread_condattr_t changes;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setprotocol(&attributes, protocol);
	pthread_mutexattr_setrobust(&attributes, robust);
	pthread_mutexattr_setpshared(&attributes, shared);
	pthread_condattr_init(&changes);
	pthread_condattr_setpshared(&changes, shared);
	if (locked == MAP_FAILED || pthread_mutex_init(&locked->mutex, &attributes) ||
	    pthread_cond_init(&locked->changed, &changes))
		return NULL;
	return locked;
}

static void *both(void)
{
	static struct locked *locked;

	return locked ? locked : (locked = make_lock(PTHREAD_PRIO_INHERIT, PTHREAD_MUTEX_ROBUST,
						     1));
}

/* Two threads do this: the copy of the one that holds it is killed, which is no owner's death. */
static const char *counts(void *state)
{
	struct locked *locked = state;

	for (int i = 0; i < 100; i++) {
		int error = pthread_mutex_lock(&locked->mutex);

		if (error)
			return torture_wrong("lock: %s", strerrorname_np(error));
		unsigned long before = locked->counter;

		torture_spin(2000);
		locked->counter = before + 1;
		locked->by_each++;
		error = pthread_mutex_unlock(&locked->mutex);
		if (error)
			return torture_wrong("unlock: %s", strerrorname_np(error));
	}
	return NULL;
}

/* A child dies with a lock: exactly then its parent hears that the owner died. */
static const char *inherits(void *state)
{
	struct locked *locked = make_lock(PTHREAD_PRIO_NONE, PTHREAD_MUTEX_ROBUST, 1);
	const char *wrong;
	int status;
	pid_t child;

	(void)state;
	if (!locked)
		return "no lock";
	child = fork();
	if (!child) {
		pthread_mutex_lock(&locked->mutex);
		torture_spin(2000000);
		_exit(0);
	}
	waitpid(child, &status, 0);
	wrong = torture_result(pthread_mutex_lock(&locked->mutex), EOWNERDEAD, 0);
	pthread_mutex_consistent(&locked->mutex);
	pthread_mutex_unlock(&locked->mutex);
	munmap(locked, sizeof(*locked));
	return wrong;
}

/* Two processes count in memory that they share: atomically, and in turns. */
static const char *counts_with_child(void *state)
{
	struct locked *locked = make_lock(PTHREAD_PRIO_NONE, PTHREAD_MUTEX_STALLED, 1);
	const char *wrong;
	pid_t child;
	int status;

	(void)state;
	if (!locked)
		return "no lock";
	child = fork();
	for (unsigned i = 0; i < 200; i++) {
		for (int k = 0; k < 500; k++)
			locked->by_each++;
		pthread_mutex_lock(&locked->mutex);
		while (locked->turn % 2 != !child)
			pthread_cond_wait(&locked->changed, &locked->mutex);
		locked->turn++;
		locked->counter++;
		pthread_cond_signal(&locked->changed);
		pthread_mutex_unlock(&locked->mutex);
	}
	if (!child)
		_exit(0);
	waitpid(child, &status, 0);
	wrong = torture_result((long)locked->counter, 400, 0);
	if (!wrong)
		wrong = torture_result((long)locked->by_each, 200000, 0);
	munmap(locked, sizeof(*locked));
	return wrong;
}

#define CPUS 1024

static struct { unsigned long count; char others[120]; } per_cpu[CPUS];
static _Atomic unsigned long all;

#ifdef __x86_64__
/*
 * Add one to a CPU's counter by a read, a while, and a write, which nobody else on this CPU does in
 * between: else the kernel goes to the abort handler.  Returns whether it was done.
 */
static int add_on(struct rseq *area, uint32_t cpu, unsigned long *counter)
{
	__asm__ goto volatile(
		".pushsection __rseq_cs, \"aw\"\n\t.balign 32\n"
		"3:\t.long 0, 0\n\t.quad 1f, 2f - 1f, 4f\n\t.popsection\n\t"
		"leaq 3b(%%rip), %%rax\n\t"
		"movq %%rax, 8(%[area])\n"
		"1:\tcmpl %[cpu], 4(%[area])\n\t"
		"jne 4f\n\t"
		"movq (%[counter]), %%rax\n\t"
		"movl $3000, %%ecx\n"
		"5:\tdecl %%ecx\n\t"
		"jnz 5b\n\t"
		"incq %%rax\n\t"
		"movq %%rax, (%[counter])\n"
		"2:\n\t"
		".pushsection __rseq_failure, \"ax\"\n\t.byte 0x0f, 0xb9, 0x3d\n\t"
		".long 0x53053053\n"
		"4:\tjmp %l[aborted]\n\t.popsection"
		: : [area] "r"(area), [cpu] "r"(cpu), [counter] "r"(counter)
		: "memory", "cc", "rax", "rcx" : aborted);
	return 1;
aborted:
	return 0;
}
#endif

static const char *counts_per_cpu(void *state)
{
	struct rseq *area = (struct rseq *)((char *)__builtin_thread_pointer() + __rseq_offset);

	(void)state;
	if (!__rseq_size)
		return NULL;
	for (unsigned i = 0; i < 2000;) {
		uint32_t cpu = *(volatile uint32_t *)&area->cpu_id_start;

		if (cpu >= CPUS || !add_on(area, cpu, &per_cpu[cpu].count))
			continue;
		all++;
		i++;
	}
	return NULL;
}

static const struct torture_case cases[] = {
	{ .name = "a robust lock with priority inheritance", .set_up = both, .once = counts },
	{ .name = "the same, another thread", .set_up = both, .once = counts },
	{ .name = "a third", .set_up = both, .once = counts },
	{ .name = "an owner's death", .once = inherits },
	{ .name = "memory shared with a child", .once = counts_with_child },
	{ .name = "restartable sequences", .once = counts_per_cpu },
	{ .name = "the same on this CPU", .once = counts_per_cpu },
	{ .name = "and this", .once = counts_per_cpu },
};

int main(void)
{
	struct account *account = account_begin(false);
	int failed = torture_run(cases, sizeof(cases) / sizeof(*cases));
	struct locked *locked = both();
	unsigned long sum = 0;

	failed += torture_line("counted under the lock", torture_result((long)locked->counter,
									(long)locked->by_each, 0));
	munmap(locked, sizeof(*locked));
	for (unsigned i = 0; i < CPUS; i++)
		sum += per_cpu[i].count;
	failed += torture_line("counted per CPU", torture_result((long)sum, (long)all, 0));
	return failed + account_end(account) ? 1 : 0;
}
