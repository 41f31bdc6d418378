/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What do a worker's models see of the execution, and when is it counted and timed? */
#ifndef TLBCOST_COPIES_WINDOW_MODELS_H
#define TLBCOST_COPIES_WINDOW_MODELS_H

#include <stdbool.h>
#include <stdint.h>

#include "code_block.h"
#include "followed.h"
#include "timing/config.h"

struct windows;

/* The callbacks of models have no context: they are about this window from now on. */
void window_models_are_of(struct windows *windows);

/* Of a core, for timed_cores_init(). */
void window_models_waited(bool huge, uint64_t address, ticks time);

/* All models see an executed block. */
void window_models_execute(struct windows *windows, const struct code_block *block,
			   const uint64_t *addresses, uint64_t next);

/* What follows is measured. */
void window_models_count(struct windows *windows);

/* The cores see what follows, until they are stopped; the models report misses in time. */
void window_models_time(struct windows *windows);
void window_models_stop(struct windows *windows);

/* What follows is timed; it took the time that the row has then. */
void window_models_start_clock(struct windows *windows);
void window_models_read_clock(struct windows *windows);

/* What was counted is a row; windows->failed if there is no memory for it. */
void window_models_add_row(struct windows *windows, const struct followed *followed);

#endif
