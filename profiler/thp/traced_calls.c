/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "traced_calls.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sysfile.h"

#ifndef SECCOMP_FILTER_FLAG_SPEC_ALLOW
#define SECCOMP_FILTER_FLAG_SPEC_ALLOW (1UL << 2)
#endif

/* Smaller ones are many, and too small to matter even where they adjoin. */
#define LEAST_BYTES (16u << 10)

/* Half a 64-bit argument, on a little-endian processor. */
#define LOW(i) ((unsigned)(offsetof(struct seccomp_data, args) + 8 * (i)))
#define HIGH(i) (LOW(i) + 4)

/* Jumps name how many statements are skipped if it is so; UNLESS: if it is not. */
#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (offset))
#define IF(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (skip), 0)
#define UNLESS(value, skip) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), 0, (skip))
#define IF_ANY(bits, skip) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), (skip), 0)
#define UNLESS_ANY(bits, skip) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits), 0, (skip))
#define IF_LEAST(value, skip) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (value), (skip), 0)
#define UNLESS_LEAST(value, skip) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (value), 0, (skip))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define STOP BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE)

#ifdef __x86_64__
#define ARCHITECTURE AUDIT_ARCH_X86_64
#else
#define ARCHITECTURE 0u
#endif

struct filter {
	struct sock_filter statements[80];
	unsigned short length;
};

static void append(struct filter *filter, const struct sock_filter *statements, size_t n)
{
	memcpy(filter->statements + filter->length, statements, n * sizeof(*statements));
	filter->length = (unsigned short)(filter->length + n);
}

/* What is done at one call; `statements` end with ALLOW or STOP on each path. */
static void at(struct filter *filter, long call, const struct sock_filter *statements, size_t n)
{
	const struct sock_filter head[] = {
		LOAD(offsetof(struct seccomp_data, nr)),
		UNLESS((unsigned)call, (unsigned char)n),
	};

	append(filter, head, 2);
	append(filter, statements, n);
}

#define AT(filter, call, ...) \
	do { \
		const struct sock_filter body[] = { __VA_ARGS__ }; \
		at(filter, call, body, sizeof(body) / sizeof(body[0])); \
	} while (0)

static void make_filter(struct filter *filter, uint32_t huge_page_bytes)
{
	const struct sock_filter others = ALLOW;
	const struct sock_filter same_architecture[] = {
		LOAD(offsetof(struct seccomp_data, arch)), IF(ARCHITECTURE, 1), ALLOW,
	};

	filter->length = 0;
	append(filter, same_architecture, 3);
	AT(filter, SYS_mmap,
	   LOAD(HIGH(1)), UNLESS(0, 2),
	   LOAD(LOW(1)), UNLESS_LEAST(LEAST_BYTES, 3),
	   LOAD(LOW(3)), UNLESS_ANY(MAP_ANONYMOUS, 1),
	   UNLESS_ANY(MAP_STACK | MAP_GROWSDOWN | MAP_HUGETLB, 1), ALLOW, STOP);
	AT(filter, SYS_brk, STOP);
	AT(filter, SYS_mremap,
	   LOAD(HIGH(2)), UNLESS(0, 2), LOAD(LOW(2)), UNLESS_LEAST(huge_page_bytes, 1), STOP, ALLOW);
	AT(filter, SYS_munmap,
	   LOAD(HIGH(1)), UNLESS(0, 2), LOAD(LOW(1)), UNLESS_LEAST(huge_page_bytes, 1), STOP, ALLOW);
	AT(filter, SYS_mprotect,
	   LOAD(LOW(2)), UNLESS(PROT_READ | PROT_WRITE, 10),
	   LOAD(HIGH(1)), UNLESS(0, 9),
	   LOAD(LOW(0)), BPF_STMT(BPF_ALU | BPF_AND | BPF_K, huge_page_bytes - 1),
	   IF(0, 6), BPF_STMT(BPF_MISC | BPF_TAX, 0),
	   LOAD(LOW(1)), IF_LEAST(huge_page_bytes, 3),
	   BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0), IF_LEAST(huge_page_bytes, 1), ALLOW, STOP);
	AT(filter, SYS_set_tid_address, STOP);
	AT(filter, SYS_seccomp, STOP);
	AT(filter, SYS_prctl,
	   LOAD(LOW(0)), IF(PR_SET_SECCOMP, 4), UNLESS(PR_SET_THP_DISABLE, 2),
	   LOAD(LOW(1)), UNLESS(0, 1), ALLOW, STOP);
	AT(filter, SYS_ptrace, STOP);
	append(filter, &others, 1);
}

static int install(const struct sock_fprog *program)
{
	/* Else older kernels would slow all of the program down, against speculation. */
	long rc = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW,
			  program);

	if (rc < 0 && errno == EINVAL)
		rc = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, program);
	return rc < 0 ? -1 : 0;
}

int traced_calls_install(uint64_t huge_page_bytes)
{
	struct filter filter;
	struct sock_fprog program = { .filter = filter.statements };

	make_filter(&filter, (uint32_t)huge_page_bytes);
	program.len = filter.length;
	if (install(&program) == 0)
		return 0;
	/* Root's may; others must promise first that they gain no rights by it. */
	if (errno != EACCES || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -1;
	return install(&program);
}
