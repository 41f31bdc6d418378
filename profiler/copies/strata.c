/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "strata.h"

#include "clock.h"
#include "waiting.h"

/* This little is never too expensive: a short program may touch its memory only at the end. */
#define CHEAP_NS 2e7
/* After this many refusals in a row strata grow no more. */
#define MOST_REFUSED 10u

static uint64_t resident_bytes(const struct sampling *sampling)
{
	struct process_status status;

	if (process_status(sampling->pid, &status) < 0)
		return 0;
	return status.resident_bytes;
}

void strata_next(struct sampling *sampling, uint64_t begin_ns)
{
	uint64_t length = budget_stratum(&sampling->budget, begin_ns, resident_bytes(sampling));
	const uint32_t serving = workers_serving(sampling->workers);

	sampling->tries = 0;
	/* Those that wait are not in the budget yet. */
	if (length == UINT64_MAX || (sampling->options.arms && sampling->options.copies &&
				     sampling->made >= sampling->options.copies)) {
		sampling->stopped = "budget";
		return;
	}
	/* While workers are busy an instant is missed. */
	if (serving && !waiting_may(sampling, 0) && length < sampling->pace_ns / serving)
		length = sampling->pace_ns / serving;
	/* A refusal is most likely to be repeated. */
	for (unsigned i = 0; i < sampling->refused && i < MOST_REFUSED; i++)
		length *= 2;
	sampling->stratum_ns = begin_ns;
	sampling->length_ns = length;
	sampling->instant_ns = begin_ns + budget_random(&sampling->random, length);
}

void strata_close(struct sampling *sampling)
{
	const uint64_t user_ns = sampling->processes.user_ns;

	if (sampling->open_row < 0)
		return;
	sampling->rows.all[sampling->open_row].user_ns = user_ns - sampling->open_user_ns;
	sampling->open_row = -1;
	sampling->open_user_ns = user_ns;
}

struct copies_row *strata_conclude(struct sampling *sampling, const char *result)
{
	ssize_t index = copies_rows_add(&sampling->rows, sampling->next_window);
	struct copies_row *row;
	uint64_t next_ns = sampling->stratum_ns + sampling->length_ns;

	if (index < 0) {
		sampling->stopped = "memory";
		return NULL;
	}
	strata_close(sampling);
	sampling->open_row = index;
	sampling->next_window++;
	row = &sampling->rows.all[index];
	row->result = result;
	row->at_ns = clock_ns() - sampling->start_ns;
	row->at_cpu_ns = sampling->processes.cpu_ns;
	row->stands_for_ns = sampling->length_ns;
	/* One that came late may be in the next stratum already: that one is not cut short. */
	if (next_ns < sampling->processes.cpu_ns) {
		row->stands_for_ns += sampling->processes.cpu_ns - next_ns;
		next_ns = sampling->processes.cpu_ns;
	}
	strata_next(sampling, next_ns);
	return row;
}

bool strata_too_dear(struct sampling *sampling, uint64_t bytes)
{
	const struct budget *budget = &sampling->budget;
	const uint64_t now_ns = sampling->processes.cpu_ns;

	if (budget->most_copies ||
	    (double)budget_predict(budget, bytes) <
		    2 * budget->fraction * (double)sampling->length_ns + CHEAP_NS)
		return false;
	sampling->length_ns = now_ns - sampling->stratum_ns;
	strata_conclude(sampling, "dear");
	return true;
}
