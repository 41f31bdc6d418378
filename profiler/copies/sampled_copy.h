/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What happens to one copy, from the instant that was drawn for it to its death? */
#ifndef TLBCOST_COPIES_SAMPLED_COPY_H
#define TLBCOST_COPIES_SAMPLED_COPY_H

#include "sampling_state.h"

/* What is known of a worker's copy. */
struct sampled_copy *sampled_copy_of(struct sampling *sampling, const struct worker *worker);

/* What the injector is asked, for a thread of the process. */
struct injector_request sampled_copy_request(const struct sampling *sampling,
					    const struct process *process, pid_t thread);

/*
 * Ask the injector; *recording is its descriptor, or -1.  Returns 0; or -1, and there are no more
 * copies.
 */
int sampled_copy_ask(struct sampling *sampling, struct process *process,
		     const struct injector_request *request, struct injector_answer *answer,
		     int *recording);

/* Hand it to a worker.  Returns 0; or -1, and the caller has to kill it. */
int sampled_copy_give(struct sampling *sampling, struct worker *worker,
		      const struct sampled_copy *sampled, const struct worker_job *job,
		      int recording);

/* It is dead: reap it, or note that its program has to. */
void sampled_copy_bury(struct sampled_copy *sampled);

/* Charge the faults after the last copy's death, on pages that were shared with it. */
void sampled_copy_charge_late(struct sampling *sampling, struct process *process, uint64_t faults);

/* The instant has come: copy a running thread; if there is none, the instant stays. */
void sampled_copy_take(struct sampling *sampling);

/* Watch this descriptor, too.  Returns 0, or -1 with errno. */
int sampling_watch(const struct sampling *sampling, int fd);

#endif
