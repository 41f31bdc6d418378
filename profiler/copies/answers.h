/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An arm of a program that makes calls all the time.  They are answered inside the arm, from the
 * recording (answers_code.h), so its time contains no stops.  It runs without a tracer.
 */
#ifndef TLBCOST_COPIES_ANSWERS_H
#define TLBCOST_COPIES_ANSWERS_H

#include <stdint.h>

#include "answers_code.h"
#include "arm.h"
#include "replay.h"

/*
 * Put the code and the recording into an arm, at *area (0: anywhere; *area is set).  `loop`:
 * instead of its own work the arm makes calls, one after the other, forever.  Returns 0; or -1 with
 * errno: ENOTSUP if the kernel has no syscall user dispatch (before Linux 5.11), EBUSY if the
 * thread is on an alternate signal stack.
 */
int answers_lay(struct arm *arm, uint64_t *area, const struct recording *recording, bool loop);

/*
 * Let it run until the end of the recording, or for `most_ns` of CPU time.  Afterwards it sleeps,
 * is no longer traced, and cannot be run again.  Returns ARM_CHECKED with all of *state; ARM_CALL
 * or ARM_SIGNAL with what was answered until then; ARM_LATE; or ARM_GONE.
 */
enum arm_end answers_run(struct arm *arm, uint64_t area, uint64_t most_ns, struct answers *state);

/*
 * A recording of this many of the calls that answers_lay() has a loop make.  NULL with errno
 * ENOMEM; free() it.
 */
uint8_t *answers_loop_records(uint32_t calls, struct recording *recording);

#endif
