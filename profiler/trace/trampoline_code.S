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
	.globl trampoline_map, trampoline_list, trampoline_poll
	.balign 16
trampoline_code:
trampoline_call:
	syscall
	/* r9 is an argument that our calls do not have: what follows the call (TRAMPOLINE_*). */
	test	%r9, %r9
	jz	trampoline_back
	cmp	$1, %r9
	jne	leave
	/* clone(): 0 in the child, which ends; its parent reaps it and goes back. */
	test	%rax, %rax
	jz	leave
	js	trampoline_back
	mov	%rax, %rdi
	xor	%esi, %esi
	mov	$0x40000000, %edx	/* __WALL */
	xor	%r10d, %r10d
	mov	$61, %eax		/* wait4 */
	syscall
	jmp	trampoline_back
	/*
	 * A helper (thread_copy.c): the mmap() of the memory for its list.  Left alone it unmaps that
	 * (%r13: bytes) and ends.
	 */
trampoline_map:
	syscall
	mov	%rax, %rdi
	mov	%r13, %rsi
	mov	$11, %eax		/* munmap */
	syscall
	jmp	leave
	/*
	 * It makes the calls of the list at %r12, each { number, rdi, rsi, rdx, r10 }, and ends after
	 * munmap(), which is that of the list.
	 */
trampoline_list:
	mov	(%r12), %rbx
	mov	%rbx, %rax
	mov	8(%r12), %rdi
	mov	16(%r12), %rsi
	mov	24(%r12), %rdx
	mov	32(%r12), %r10
	xor	%r8d, %r8d
	xor	%r9d, %r9d
	syscall
	cmp	$11, %rbx
	je	leave
	add	$40, %r12
	cmp	$56, %rbx		/* clone() */
	jne	trampoline_list
	test	%rax, %rax
	jnz	trampoline_list
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
trampoline_poll:
	.quad	0			/* struct pollfd: the end of the process that it waits for */
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
