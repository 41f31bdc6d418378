// SPDX-License-Identifier: GPL-2.0-or-later
// Which memory does a method reach?  Has 96 MiB of one kind for a while.
//
//	memory <malloc|mmap|bss|steps|blocks|arena|shared|segment|memfd|file:PATH> [<milliseconds>]
//	(else HOLD_MS of the environment, or 600)
//	memory who
//
// steps: many small blocks, so that the heap grows little by little; arena: the same in a thread;
// blocks: of 1 MiB each, which malloc maps one by one;
// segment: of System V; who: prints whose rights it has. With SMAPS=FILE in the environment, it
// copies what the kernel shows of its memory there before it ends.
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <time.h>
#include <unistd.h>

#define SIZE ((size_t)96 << 20)
#define SMALL ((size_t)40)

static char array[SIZE];

static void *in_steps(void *unused)
{
	(void)unused;
	// The block and what malloc keeps with it.
	for (size_t got = 0; got < SIZE; got += SMALL + sizeof(size_t)) {
		char *block = malloc(SMALL);

		if (!block)
			exit(1);
		memset(block, 1, SMALL);
	}
	return NULL;
}

static void in_blocks(void)
{
	for (size_t got = 0; got < SIZE; got += (size_t)1 << 20) {
		char *block = malloc((size_t)1 << 20);

		if (!block)
			exit(1);
		memset(block, 1, (size_t)1 << 20);
	}
}

static void in_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, in_steps, NULL) || pthread_join(thread, NULL))
		exit(1);
}

static void fill(void *memory)
{
	if (!memory || memory == MAP_FAILED)
		exit(1);
	memset(memory, 1, SIZE);
}

static void *mapped(int flag)
{
	return mmap(NULL, SIZE, PROT_READ | PROT_WRITE, flag | MAP_ANONYMOUS, -1, 0);
}

static void *of_file(int fd)
{
	if (fd < 0 || ftruncate(fd, (off_t)SIZE))
		exit(1);
	return mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
}

static void *of_path(const char *path)
{
	int fd = open(path, O_RDWR | O_CREAT, 0600);
	void *memory = of_file(fd);

	return unlink(path) ? NULL : memory;
}

static void *of_segment(void)
{
	int id = shmget(IPC_PRIVATE, SIZE, IPC_CREAT | 0600);
	void *memory = id < 0 ? NULL : shmat(id, NULL, 0);

	if (id < 0 || shmctl(id, IPC_RMID, NULL))
		exit(1);
	return memory;
}

static void copy_smaps(const char *name)
{
	char block[4096];
	size_t n;
	FILE *from = fopen("/proc/self/smaps", "r"), *to = fopen(name, "w");

	if (!from || !to)
		exit(1);
	while ((n = fread(block, 1, sizeof(block), from)) > 0)
		if (fwrite(block, 1, n, to) != n)
			exit(1);
	if (fclose(to) || fclose(from))
		exit(1);
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "";
	const char *hold = argc > 2 ? argv[2] : getenv("HOLD_MS");
	long ms = hold ? atol(hold) : 600;

	if (!strcmp(kind, "who"))
		return printf("%ld\n", (long)geteuid()) < 0;
	if (!strcmp(kind, "malloc"))
		fill(malloc(SIZE));
	else if (!strcmp(kind, "mmap"))
		fill(mapped(MAP_PRIVATE));
	else if (!strcmp(kind, "shared"))
		fill(mapped(MAP_SHARED));
	else if (!strcmp(kind, "bss"))
		fill(array);
	else if (!strcmp(kind, "steps"))
		in_steps(NULL);
	else if (!strcmp(kind, "blocks"))
		in_blocks();
	else if (!strcmp(kind, "arena"))
		in_thread();
	else if (!strcmp(kind, "memfd"))
		fill(of_file(memfd_create("memory", 0)));
	else if (!strcmp(kind, "segment"))
		fill(of_segment());
	else if (!strncmp(kind, "file:", 5))
		fill(of_path(kind + 5));
	else
		return 2;
	if (getenv("SMAPS"))
		copy_smaps(getenv("SMAPS"));
	nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
	return 0;
}
