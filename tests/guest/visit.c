/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What should the counters of the emulated machine say?  Loads from --pages
 * pages in random order, --loads of them, each waiting for the one before, then
 * --stores stores in the same order: a known number of accesses that miss a TLB
 * of fewer pages.  So does each of --processes children and --threads threads.
 */
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "workload.h"

enum { MOST_THREADS = 16 };

/* One per page; the rest of the page is never touched. */
struct page {
	struct page *next;
	uint64_t word;
	char rest[WORKLOAD_PAGE_BYTES - sizeof(struct page *) - sizeof(uint64_t)];
};

struct visit {
	struct page *pages;
	uint64_t count, loads, stores;
	pthread_barrier_t *start;	/* NULL: begin at once */
	uint64_t sum;
};

/* Sattolo's shuffle of dense numbers, so that few pages but these are touched. */
static void make_ring(struct page *pages, uint64_t n)
{
	uint32_t *order = workload_memory(n * sizeof(*order));
	uint64_t state = workload_seed(1);

	for (uint64_t i = 0; i < n; i++)
		order[i] = (uint32_t)i;
	for (uint64_t i = n - 1; i > 0; i--) {
		uint64_t j = workload_below(workload_random(&state), i);
		uint32_t last = order[i];

		order[i] = order[j];
		order[j] = last;
	}
	for (uint64_t i = 0; i < n; i++)
		pages[order[i]].next = &pages[order[(i + 1) % n]];
	free(order);
}

/* Names that samples are looked for under. */
static struct page *load_pages(struct page *page, uint64_t n)
	__attribute__((noinline));
static void store_pages(struct page **order, uint64_t n, uint64_t stores)
	__attribute__((noinline));

static struct page *load_pages(struct page *page, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++)
		page = page->next;
	return page;
}

/* The order is read from dense memory: a load of each page would translate it first. */
static void store_pages(struct page **order, uint64_t n, uint64_t stores)
{
	uint64_t at = 0;

	for (uint64_t i = 0; i < stores; i++) {
		*(volatile uint64_t *)&order[at]->word = i;
		at = at + 1 == n ? 0 : at + 1;
	}
}

static void *visit(void *argument)
{
	struct visit *visit = argument;
	struct page **order = NULL;
	struct page *page = visit->pages;

	if (visit->stores) {
		order = workload_memory(visit->count * sizeof(struct page *));
		for (uint64_t i = 0; i < visit->count; i++, page = page->next)
			order[i] = page;
	}
	if (visit->start)
		pthread_barrier_wait(visit->start);
	page = load_pages(visit->pages, visit->loads);
	if (visit->stores)
		store_pages(order, visit->count, visit->stores);
	free(order);
	visit->sum = (uint64_t)(page - visit->pages);
	return NULL;
}

/* With `hold`, the threads are there and wait while the process is stopped. */
static void visit_in_threads(struct visit *plan, uint64_t n, uint64_t hold)
{
	pthread_t threads[MOST_THREADS];
	struct visit visits[MOST_THREADS];
	pthread_barrier_t start;

	pthread_barrier_init(&start, NULL, (unsigned)n + 1);
	plan->start = &start;
	for (uint64_t i = 0; i < n; i++) {
		visits[i] = *plan;
		if (pthread_create(&threads[i], NULL, visit, &visits[i]) != 0) {
			fputs("cannot start a thread\n", stderr);
			exit(1);
		}
	}
	if (hold)
		raise(SIGSTOP);
	pthread_barrier_wait(&start);
	for (uint64_t i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		plan->sum += visits[i].sum;
	}
}

static void visit_in_processes(struct visit *plan, uint64_t n)
{
	int status;

	for (uint64_t i = 0; i < n; i++) {
		pid_t pid = fork();

		if (pid == 0) {
			visit(plan);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
			fputs("a child failed\n", stderr);
			exit(1);
		}
	}
}

int main(int argc, char **argv)
{
	uint64_t pages = 16384, threads = 0, processes = 0, hold = 0;
	struct visit plan = { .loads = 200000 };
	const struct workload_option options[] = {
		{ "hold", &hold, 0, "1: stop before the first access, to be continued" },
		{ "loads", &plan.loads, 0, "loads" },
		{ "pages", &pages, 1, "pages of 4 KiB" },
		{ "processes", &processes, 0, "children that do it, one by one; 0: itself" },
		{ "stores", &plan.stores, 0, "stores" },
		{ "threads", &threads, 0, "threads that do it at once; 0: the first" },
	};

	(void)argc;
	WORKLOAD_PARSE(argv, "Visit pages in random order.", options);
	workload_at_most_32_bits(pages);
	if (threads > MOST_THREADS) {
		fputs("too many threads\n", stderr);
		return 2;
	}
	plan.pages = workload_aligned_memory(pages * sizeof(struct page));
	plan.count = pages;
	make_ring(plan.pages, pages);
	if (threads) {
		visit_in_threads(&plan, threads, hold);
		return workload_finish(plan.sum);
	}
	if (hold)
		raise(SIGSTOP);
	if (processes)
		visit_in_processes(&plan, processes);
	else
		visit(&plan);
	return workload_finish(plan.sum);
}
