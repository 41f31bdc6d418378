// SPDX-License-Identifier: GPL-2.0-or-later
// Does a line of a remedy, written into a program, put its memory onto huge pages?
// Has 96 MiB, and copies what the kernel shows of its memory to the file named by SMAPS.
//
// The line is given by one of -DMAP=... (gives the memory), -DDESCRIPTOR=... or -DSEGMENT=... (make
// what is mapped then), -DBEFORE=... or -DAFTER=... (done before or after the memory is touched),
// -DARRAY: the memory is a static array.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <unistd.h>

#define SIZE ((size_t)96 << 20)
#ifndef BEFORE
#define BEFORE
#endif
#ifndef AFTER
#define AFTER
#endif

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

#ifdef ARRAY
static char array[SIZE] __attribute__((aligned(1 << 21)));
#endif

static void *memory(size_t length)
{
#if defined(ARRAY)
	(void)length;
	return array;
#elif defined(MAP)
	return MAP;
#elif defined(DESCRIPTOR)
	const char *name = "line";
	int fd = DESCRIPTOR;

	if (fd < 0 || ftruncate(fd, (off_t)length))
		fail("memfd_create");
	return mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
#elif defined(SEGMENT)
	key_t key = IPC_PRIVATE;
	int id = SEGMENT;
	void *address = id < 0 ? (void *)-1 : shmat(id, NULL, 0);

	if (id < 0 || shmctl(id, IPC_RMID, NULL))
		fail("shmget");
	return address;
#elif defined(OPENED)
	int fd = open(getenv("OPENED"), O_RDONLY);

	if (fd < 0)
		fail("open");
	return mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
#else
	return mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
#endif
}

int main(void)
{
	size_t length = SIZE, n, sum = 0;
	char *address = memory(length), block[4096];
	FILE *from, *to;

	if (address == MAP_FAILED)
		fail("mmap");
	BEFORE
#ifdef OPENED
	for (size_t i = 0; i < length; i += 4096)
		sum += (size_t)address[i];
#else
	memset(address, 1, length);
#endif
	AFTER
	from = fopen("/proc/self/smaps", "r");
	to = fopen(getenv("SMAPS"), "w");
	if (!from || !to)
		fail("smaps");
	while ((n = fread(block, 1, sizeof(block), from)) > 0)
		if (fwrite(block, 1, n, to) != n)
			fail("write");
	return fclose(to) || fclose(from) || sum == 1;
}
