/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * 8 MiB of code, a function in each page, called one after the other: prints the kB of code on huge
 * pages.  Exits with 1 if the functions did not return what they should.
 */
#include <stdio.h>

enum { PAGES = 2048 };

extern void pages(void);

#ifndef WITHOUT_PAGES
__asm__(".text\n.balign 4096\n.globl pages\n.type pages, @function\npages:\n"
	".rept 2048\nlea 1(%rdi), %rax\nret\n.balign 4096, 0xcc\n.endr\n");
#endif

#ifndef WITHOUT_MAIN
static long call_all(void)
{
	long x = 0;

	for (int i = 0; i < PAGES; i++)
		x = ((long (*)(long))((char *)pages + 4096l * i))(x);
	return x;
}

int main(void)
{
	FILE *smaps = fopen("/proc/self/smaps", "r");
	char line[256], rights[5];
	long kb, sum = 0;
	int code = 0;

	while (smaps && fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%*x-%*x %4s", rights) == 1 && rights[3] == 'p')
			code = rights[2] == 'x';
		else if (code && sscanf(line, "AnonHugePages: %ld", &kb) == 1)
			sum += kb;
	}
	printf("%ld\n", sum);
	return call_all() != PAGES;
}
#endif
