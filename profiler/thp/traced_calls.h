/* SPDX-License-Identifier: GPL-2.0-or-later */
/* At which system calls is a program stopped? All others run at full speed. */
#ifndef TLBCOST_THP_TRACED_CALLS_H
#define TLBCOST_THP_TRACED_CALLS_H

#include <stdint.h>

/*
 * Have the kernel stop the calling process, and whatever it executes, for its
 * tracer (PTRACE_EVENT_SECCOMP) at:
 *   - mmap of anonymous memory of 16 KiB and more, but for stacks and hugetlb
 *   - brk
 *   - mremap to a huge page's size and more
 *   - munmap of a huge page's size and more, after which memory is at its peak
 *     no longer
 *   - mprotect that makes memory readable and writable from the start of a huge
 *     page, or up to or beyond the end of one
 *   - set_tid_address, which each C library calls once, when it starts
 *   - seccomp and prctl where they give the process a filter of its own, prctl
 *     where it turns transparent huge pages off
 *   - ptrace, which cannot work in it
 * Without a tracer those calls fail with ENOSYS.  A process without
 * CAP_SYS_ADMIN can then gain no rights by execve() (PR_SET_NO_NEW_PRIVS).
 * Returns 0, or -1 with errno: ENOSYS or EINVAL where the kernel has no seccomp
 * filters, EPERM or EACCES where this process may have none.
 */
int traced_calls_install(uint64_t huge_page_bytes);

#endif
