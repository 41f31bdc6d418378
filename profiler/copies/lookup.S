/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Find the code of the target of an indirect jump.  It is copied to the start of the code cache;
 * all registers and flags are the program's when it begins and when it jumps on.
 */
#include "area.h"

	.text
	.globl lookup_begin, lookup_unknown, lookup_end
lookup_begin:
	movq %rax, %gs:AREA_RAX
	movq %rcx, %gs:AREA_RCX
	movq %rdx, %gs:AREA_RDX
	/* pushf would write to the program's stack. */
	lahf
	seto %al
	movq %rax, %gs:AREA_FLAGS
	movq %gs:AREA_TARGET, %rax
	imulq $AREA_HASH_FACTOR, %rax, %rdx
	shrq $AREA_HASH_SHIFT, %rdx
.Lnext:
	andl $(AREA_TABLE_SLOTS - 1), %edx
	movq %gs:AREA_TABLE(,%rdx,8), %rcx
	testq %rcx, %rcx
	jz .Lunknown
	cmpq %rax, %rcx
	je .Lfound
	incl %edx
	jmp .Lnext
.Lfound:
	movq %gs:AREA_TABLE_CODE(,%rdx,8), %rcx
	movq %rcx, %gs:AREA_CODE_OF
	movzwl %ax, %edx
	negq %rax
	movq %rax, %gs:AREA_RECENT(,%rdx,8)
	movq %rcx, %gs:AREA_RECENT_CODE(,%rdx,8)
	movq %gs:AREA_FLAGS, %rax
	/* Overflows just if it was set. */
	addb $0x7f, %al
	sahf
	movq %gs:AREA_RAX, %rax
	movq %gs:AREA_RCX, %rcx
	movq %gs:AREA_RDX, %rdx
	jmpq *%gs:AREA_CODE_OF
.Lunknown:
	movq %gs:AREA_FLAGS, %rax
	addb $0x7f, %al
	sahf
	movq %gs:AREA_RAX, %rax
	movq %gs:AREA_RCX, %rcx
	movq %gs:AREA_RDX, %rdx
lookup_unknown:
	int3
lookup_end:
	.section .note.GNU-stack,"",@progbits
