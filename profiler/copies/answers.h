/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * An arm of a program that makes calls all the time: they are answered inside of it, as they were
 * recorded (answers_code.h), so that no stop is part of its time.  It runs without a tracer.
 */
#ifndef TLBCOST_COPIES_ANSWERS_H
#define TLBCOST_COPIES_ANSWERS_H

#include <stdint.h>

#include "answers_code.h"
#include "arm.h"
#include "replay.h"

/*
 * Lay the code and the recording into an arm, where `area` says (0: anywhere; *area is where).
 * `loop`: in place of its own work the arm makes calls, one after the other, forever.  Returns 0; or
 * -1 with errno, ENOTSUP if this kernel hands calls to nobody (Linux 5.11 does), EBUSY if the thread
 * is on a signal's stack of its own.
 */
int answers_lay(struct arm *arm, uint64_t *area, const struct recording *recording, bool loop);

/*
 * Let it run until the recording is over, or as long as that may take: CPU time.  It rests
 * afterwards, is not traced any more, and cannot be run again.  Returns ARM_CHECKED with all of
 * *state; ARM_CALL or ARM_SIGNAL with what was answered until then; ARM_LATE; or ARM_GONE.
 */
enum arm_end answers_run(struct arm *arm, uint64_t area, uint64_t most_ns, struct answers *state);

/* A recording of this many of the calls that answers_lay() has a loop make.  NULL with errno ENOMEM; free() it. */
uint8_t *answers_loop_records(uint32_t calls, struct recording *recording);

#endif
