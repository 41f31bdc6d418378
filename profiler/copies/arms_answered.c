/* SPDX-License-Identifier: GPL-2.0-or-later */
/* One slice of an arm's work in which all calls are answered: for servers, which make many. */
#include <errno.h>
#include <stdlib.h>

#include "answers.h"
#include "measuring.h"

/* With fewer marks the slice cannot be divided into warm-up and measurement. */
#define FEWEST_MARKS 5u
/* The last of the marks that are warm-up: of 16, the sixth. */
#define WARM_SHARE 3u
#define MOST_NS UINT64_C(5000000000)
#define LOOP_CALLS 4096u
/* No stops are part of it. */
#define SHORTEST_NS 500000u

/* The result of one run of all calls. */
struct answered {
	enum arm_end end;
	struct answers state;
};

static const char *word_of(int error)
{
	return error == ENOMEM ? "memory" : error == ENOTSUP || error == EBUSY ? "call" : "failed";
}

static int run_arm(struct measuring *measuring, struct arm *arm, uint64_t *area,
		   const struct recording *recording, bool loop, struct answered *answered)
{
	if (answers_lay(arm, area, recording, loop) < 0)
		return measuring_stop(measuring, word_of(errno));
	answered->end = answers_run(arm, *area, MOST_NS, &answered->state);
	return 0;
}

static int by_size(const void *a, const void *b)
{
	const uint64_t first = *(const uint64_t *)a, second = *(const uint64_t *)b;

	return first < second ? -1 : first > second;
}

/* The median: an interrupt in one mark would otherwise raise the cost of every call. */
static double one_call_ns(const struct answers *state)
{
	const uint32_t last = state->marks - 1;
	uint64_t between[ANSWERS_MARKS];

	for (uint32_t i = 0; i < last; i++)
		between[i] = state->mark_ns[i + 1] - state->mark_ns[i];
	qsort(between, last, sizeof(*between), by_size);
	return (double)between[last / 2] / (double)state->mark_every;
}

/* The CPU time of answering a call, which is not the program's work.  Returns 0, or -1. */
static int time_answer(struct measuring *measuring, double *ns)
{
	struct recording recording;
	struct answered answered;
	uint8_t *records = answers_loop_records(LOOP_CALLS, &recording);
	struct arm arm;
	uint64_t area = 0;
	int rc = -1;

	if (!records)
		return measuring_stop(measuring, "memory");
	if (arm_fork(&arm, measuring->copy) == 0) {
		rc = run_arm(measuring, &arm, &area, &recording, true, &answered);
		if (rc == 0 && (answered.end != ARM_CHECKED || answered.state.marks < FEWEST_MARKS))
			rc = measuring_stop(measuring, "failed");
		arm_kill(&arm, measuring->copy);
	} else {
		measuring_stop(measuring, word_of(errno));
	}
	free(records);
	if (rc == 0)
		*ns = one_call_ns(&answered.state);
	return rc;
}

/* From that mark to this one, without what answering took. */
static uint64_t work_ns(const struct answers *state, uint32_t from, uint32_t to, double answer_ns)
{
	const double all = (double)(state->mark_ns[to] - state->mark_ns[from]);
	const double answers = answer_ns * (double)((to - from) * state->mark_every);

	return all > answers ? (uint64_t)(all - answers) : 0;
}

/* They are measured up to the last mark that all have reached. */
static void measure_rows(struct slice_row *rows, const struct answered answered[ARM_KINDS],
			 double answer_ns)
{
	uint32_t marks = ANSWERS_MARKS;

	for (unsigned i = 0; i < ARM_KINDS; i++)
		if (answered[i].state.marks < marks)
			marks = answered[i].state.marks;
	for (unsigned i = 0; i < ARM_KINDS; i++) {
		const struct answers *state = &answered[i].state;

		if (answered[i].end == ARM_GONE || marks < FEWEST_MARKS) {
			rows[i].outcome = answered[i].end == ARM_CHECKED ?
				"short" : measuring_word(answered[i].end);
			rows[i].call = answered[i].end == ARM_CALL ? state->at_call : -1;
			continue;
		}
		rows[i].warm_ns = work_ns(state, 0, marks / WARM_SHARE, answer_ns);
		rows[i].time_ns = work_ns(state, marks / WARM_SHARE, marks - 1, answer_ns);
		rows[i].stops = (marks - 1 - marks / WARM_SHARE) * state->mark_every;
		rows[i].outcome = rows[i].time_ns < SHORTEST_NS ? "short" : "good";
	}
}

void answered_run(struct measuring *measuring)
{
	struct answered answered[ARM_KINDS] = { { ARM_GONE, { .marks = 0 } } };
	enum arm_kind order[ARM_KINDS];
	double answer_ns = 0;
	uint64_t area = 0;
	size_t first;

	if (time_answer(measuring, &answer_ns) < 0 ||
	    run_arm(measuring, &measuring->pilot, &area, measuring->recording, false, &answered[0]) < 0 ||
	    measuring_note_pages(measuring, measuring->pilot.copy.pid) < 0)
		return;
	measuring_shuffle(measuring, order);
	first = measuring->rows->count;
	for (unsigned turn = 0; turn < ARM_KINDS; turn++) {
		struct slice_row *row = slice_rows_add(measuring->rows, measuring->window);

		if (!row)
			return;
		row->turn = turn;
		row->arm = order[turn];
		if (measuring_prepare(measuring, order[turn]) == 0)
			measuring_note_backing(measuring, row);
		if (measuring->why ||
		    run_arm(measuring, &measuring->arms[order[turn]], &area, measuring->recording, false,
			    &answered[turn]) < 0) {
			row->outcome = measuring->why;
			return;
		}
	}
	measure_rows(&measuring->rows->all[first], answered, answer_ns);
}
