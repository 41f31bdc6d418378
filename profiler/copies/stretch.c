/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "stretch.h"

#include "window_models.h"
#include "window_state.h"

/* Stretches have this many references; the first ones a tenth of it. */
#define STRETCH 5000000u
#define DENSE 10000000u
/*
 * From this many on they are a 32nd of what was executed before: a hundred or two are timed, however
 * long the program runs.  (0.2 s, the most that estimates follow themselves, have about as many.)
 */
#define LONG UINT64_C(500000000)
#define LONG_SHARE 32u

static uint64_t stretch_after(uint64_t references)
{
	if (references < DENSE)
		return STRETCH / 10;
	return references < LONG ? STRETCH : references / LONG_SHARE;
}

void stretch_begin(struct windows *windows)
{
	const uint64_t now = windows->feed.clock, part = window_timed_part(windows);

	windows->stretch_ends = now + stretch_after(now);
	if (now == 0) {
		window_models_time(windows);
		window_models_start_clock(windows);
		windows->phase_ends = windows->stretch_ends;
		return;
	}
	schedule_start(&windows->schedule, now, windows->stretch_ends - now, part);
	windows->phase_ends = schedule_next(&windows->schedule, now);
	windows->timed_from = UINT64_MAX;
}

void stretch_continue(struct windows *windows)
{
	static const struct followed enough = { .end = FOLLOW_ENOUGH };

	if (windows->feed.clock >= windows->stretch_ends) {
		if (windows->timed_from < windows->feed.clock)
			window_models_read_clock(windows);
		window_models_stop(windows);
		window_models_add_row(windows, &enough);
		windows->row = (struct window_row){
			.window = windows->row.window + 1, .pid = windows->row.pid,
			.tid = windows->row.tid, .at_cpu_ns = windows->row.at_cpu_ns,
		};
		window_models_count(windows);
		stretch_begin(windows);
	} else if (windows->feed.clock < windows->phase_ends) {
		return;
	} else if (!windows->modelling) {
		window_models_time(windows);
		windows->phase_ends = windows->feed.clock + windows->options->core_warm;
	} else if (windows->timed_from == UINT64_MAX) {
		window_models_start_clock(windows);
		windows->phase_ends = windows->feed.clock + windows->options->measured;
	} else {
		window_models_read_clock(windows);
		window_models_stop(windows);
		windows->phase_ends = UINT64_MAX;
	}
}
