/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is said of a program with SVE, which Valgrind does not know?  Counts the bytes of a vector. */
#include <stdio.h>

int main(void)
{
	unsigned long bytes;

	__asm__(".arch armv8-a+sve\n\tcntb %0" : "=r"(bytes));
	printf("%lu bytes\n", bytes);
	return 0;
}
