/* SPDX-License-Identifier: GPL-2.0-or-later */
/* A program of 32 bits, for x86: computes for a while, then ends with exit code 11. */
	.globl _start
	.text
_start:
	movl $1500000000, %ecx
1:	decl %ecx
	jnz 1b
	movl $1, %eax
	movl $11, %ebx
	int $0x80
	.section .note.GNU-stack, "", @progbits
