/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A heap that shrinks and grows: is what it gets again zero, and how much of it is on huge pages? */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char *more(long bytes)
{
	char *start = sbrk(bytes);

	if (start == (char *)-1)
		return NULL;
	for (long i = 0; i < bytes; i++)
		if (start[i])
			return NULL;
	return memset(start, 0xff, (size_t)bytes);
}

int main(void)
{
	char line[256];
	FILE *smaps;
	int heap = 0, kib;

	if (!more(32 << 20))
		return 1;
	/* In whole pages: the kernel takes no part of one. */
	for (long step = 4096; step < 8 << 20; step = step * 3 / 2 / 4096 * 4096 + 4096)
		if (sbrk(-step) == (char *)-1 || !more(step))
			return 2;
	smaps = fopen("/proc/self/smaps", "r");
	while (smaps && fgets(line, sizeof(line), smaps)) {
		if (strstr(line, "[heap]"))
			heap = 1;
		else if (heap && sscanf(line, "AnonHugePages: %d", &kib) == 1)
			return printf("%d\n", kib) < 0;
	}
	return 3;
}
