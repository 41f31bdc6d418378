/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a stopped thread executes for us.  It is copied into the program (trampoline.c), so it is
 * independent of its place, writes no memory and uses no stack: another may be right below the
 * thread's own.
 *
 * The tracer stops the thread after the call and gives it its registers back.  If the tracer is no
 * more, the thread does so itself.
 */
	.section .rodata
	.globl trampoline_code, trampoline_call, trampoline_back, trampoline_data, trampoline_end
	.balign 16
trampoline_code:
trampoline_call:
	syscall
	/* r9 is an argument that our calls do not have: what follows the call (TRAMPOLINE_*). */
	test	%r9, %r9
	jz	trampoline_back
	cmp	$1, %r9
	jne	leave
	/* clone(): 0 in the copy, which no process waits for. */
	test	%rax, %rax
	jnz	trampoline_back
leave:
	mov	$231, %eax		/* exit_group */
	xor	%edi, %edi
	syscall
	hlt
trampoline_back:
	lea	flags(%rip), %rsp
	popfq
	mov	stack(%rip), %rsp
	/* Nothing from here on changes the flags. */
	mov	$14, %eax		/* rt_sigprocmask(SIG_SETMASK, &mask, NULL, 8) */
	mov	$2, %edi
	lea	mask(%rip), %rsi
	mov	$0, %edx
	mov	$8, %r10d
	syscall
	mov	rax(%rip), %rax
	mov	rdi(%rip), %rdi
	mov	rsi(%rip), %rsi
	mov	rdx(%rip), %rdx
	mov	rcx(%rip), %rcx
	mov	r8(%rip), %r8
	mov	r9(%rip), %r9
	mov	r10(%rip), %r10
	mov	r11(%rip), %r11
	jmp	*rip(%rip)

	/* struct trampoline_data */
	.balign 8
trampoline_data:
	.quad	60, 0			/* how long a parked copy lives: struct timespec */
flags:	.quad	0
stack:	.quad	0
mask:	.quad	0
rax:	.quad	0
rdi:	.quad	0
rsi:	.quad	0
rdx:	.quad	0
rcx:	.quad	0
r8:	.quad	0
r9:	.quad	0
r10:	.quad	0
r11:	.quad	0
rip:	.quad	0
	.quad	0			/* turn */
trampoline_end:

	.section .note.GNU-stack, "", @progbits
