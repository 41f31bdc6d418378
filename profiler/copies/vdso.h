/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The functions of the vDSO that give the time.  They are answered here, so that a copy whose
 * calls are replayed sees the time of these.
 */
#ifndef TLBCOST_COPIES_VDSO_H
#define TLBCOST_COPIES_VDSO_H

#include <stdbool.h>
#include <stdint.h>

struct translator;
struct copy;
struct user_regs_struct;

enum vdso_clock { VDSO_CLOCK_GETTIME, VDSO_GETTIMEOFDAY, VDSO_TIME, VDSO_CLOCKS };

/*
 * From the start of the vDSO: the same in all processes of one kernel.  0: it has no such function.
 */
uint64_t vdso_offset(enum vdso_clock clock);

/* Does one of these begin at the address? */
bool vdso_is_clock(const struct translator *translator, uint64_t address);

/*
 * The copy is about to execute the one at its rip: set its result, as if it had run `late_ns` ago,
 * and return from it.  Returns 0, or -1 with errno.
 */
int vdso_answer(const struct translator *translator, struct copy *copy,
		struct user_regs_struct *registers, int64_t late_ns);

#endif
