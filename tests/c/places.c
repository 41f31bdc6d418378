/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A program whose page faults are at known places: who touches how many fresh pages of what? */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

void touch_in_library(char *memory, size_t pages, size_t page_bytes);

static size_t page_bytes;

/* Without inlining each of them is a symbol of its own. */
#define APART __attribute__((noinline, noclone))

APART void touch_here(char *memory, size_t pages);
APART void touch_in_child(char *memory, size_t pages);

#define TOUCH                                                \
	do {                                                 \
		for (size_t i = 0; i < pages; i++)           \
			((volatile char *)memory)[i * page_bytes] = 1; \
	} while (0)

void touch_here(char *memory, size_t pages)
{
	TOUCH;
}

void touch_in_child(char *memory, size_t pages)
{
	TOUCH;
}

static char *memory_of(size_t pages, int flags, int fd)
{
	char *memory = mmap(NULL, pages * page_bytes, PROT_READ | PROT_WRITE, flags, fd, 0);

	if (memory == MAP_FAILED) {
		perror("mmap");
		exit(1);
	}
	madvise(memory, pages * page_bytes, MADV_NOHUGEPAGE);
	return memory;
}

static char *anonymous(size_t pages)
{
	return memory_of(pages, MAP_PRIVATE | MAP_ANONYMOUS, -1);
}

static void *thread(void *argument)
{
	const size_t *pages = argument;

	touch_here(anonymous(*pages), *pages);
	return NULL;
}

static void in_threads(size_t pages)
{
	pthread_t threads[3];

	for (int i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, thread, &pages);
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
}

static void in_child(size_t pages)
{
	if (fork() == 0) {
		touch_in_child(anonymous(pages), pages);
		_exit(0);
	}
	wait(NULL);
}

static void in_heap(size_t pages)
{
	/* The kernel calls it the heap when it grows, not when it begins. */
	char *memory = sbrk((long)page_bytes) == (void *)-1 ?
		NULL : sbrk((long)((pages + 1) * page_bytes));
	size_t shift = page_bytes - (size_t)memory % page_bytes;

	madvise(memory + shift, pages * page_bytes, MADV_NOHUGEPAGE);
	touch_here(memory + shift, pages);
}

static void in_file(size_t pages, const char *path)
{
	FILE *file = fopen(path, "w+e");

	if (!file || ftruncate(fileno(file), (long)(pages * page_bytes)) < 0)
		exit(1);
	touch_here(memory_of(pages, MAP_SHARED, fileno(file)), pages);
}

/* Say that we are there, wait for the word to continue, and wait again before the end. */
static void when_asked(size_t pages)
{
	char *memory = anonymous(pages);

	puts("ready");
	fflush(stdout);
	if (getchar() == EOF)
		exit(1);
	touch_here(memory, pages);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	size_t pages = argc > 2 ? strtoul(argv[2], NULL, 10) : 0;

	page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	if (strcmp(what, "here") == 0)
		touch_here(anonymous(pages), pages);
	else if (strcmp(what, "library") == 0)
		touch_in_library(anonymous(pages), pages, page_bytes);
	else if (strcmp(what, "threads") == 0)
		in_threads(pages);
	else if (strcmp(what, "child") == 0)
		in_child(pages);
	else if (strcmp(what, "exec") == 0)
		execl(argv[0], argv[0], "library", argv[2], (char *)NULL);
	else if (strcmp(what, "heap") == 0)
		in_heap(pages);
	else if (strcmp(what, "shared") == 0)
		touch_here(memory_of(pages, MAP_SHARED | MAP_ANONYMOUS, -1), pages);
	else if (strcmp(what, "file") == 0)
		in_file(pages, argv[3]);
	else if (strcmp(what, "asked") == 0)
		when_asked(pages);
	else
		return 2;
	return 0;
}
