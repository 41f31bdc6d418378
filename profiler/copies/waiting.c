/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "waiting.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arms_options.h"
#include "clock.h"
#include "sampled_copy.h"
#include "slices.h"
#include "sysfile.h"

/* A parked copy exits by itself after 60 s (trampoline_code.S): older ones are not started. */
#define MOST_PARKED_NS UINT64_C(50000000000)

/* Their arms have some of the time, too. */
#define LONGEST_NS UINT64_C(30000000000)

bool waiting_is_for_the_end(const struct sampling *sampling)
{
	return sampling->options.arms && sampling->launched && !sampling->over &&
	       sampling->options.expected_cpu_ns <= LONGEST_NS &&
	       clock_ns() - sampling->start_ns <= LONGEST_NS;
}

/* The part of the time that one copy may take, so that there are enough of them. */
uint64_t waiting_share(const struct sampling *sampling)
{
	const uint64_t end_ns = sampling->start_ns + sampling->options.until_ns;
	const uint64_t now = clock_ns();
	const uint64_t missing = sampling->measured < ARMS_FEWEST_COPIES ?
		ARMS_FEWEST_COPIES - sampling->measured : 1;

	if (!sampling->options.arms || !sampling->options.until_ns)
		return sampling->options.window_ns;
	return now < end_ns ? (end_ns - now) / missing : 1;
}

/* Does it end in time if it takes as long as the last one?  Too few copies are no answer. */
static bool has_time(const struct sampling *sampling, uint64_t now)
{
	return !sampling->options.until_ns || sampling->measured < ARMS_FEWEST_COPIES ||
	       now + sampling->measuring_ns <= sampling->start_ns + sampling->options.until_ns;
}

/*
 * Each of them may have all its pages to itself some time, as each arm of the one that is measured.
 */
bool waiting_may(const struct sampling *sampling, uint64_t resident_bytes)
{
	const uint64_t copies = ARM_KINDS + 2 + sampling->waiting_count;
	struct memory_room room;

	return sampling->options.arms && sampling->launched &&
	       sampling->waiting_count < WAITING_MOST && sysfile_memory_room(&room) == 0 &&
	       room.bytes / copies > resident_bytes;
}

int waiting_add(struct sampling *sampling, const struct sampled_copy *sampled,
		const struct worker_job *job, int recording)
{
	struct waiting_copy *waiting = &sampling->waiting[sampling->waiting_count];

	*waiting = (struct waiting_copy){ *sampled, *job, -1 };
	if (recording >= 0)
		waiting->recording = fcntl(recording, F_DUPFD_CLOEXEC, 0);
	if (recording >= 0 && waiting->recording < 0)
		return -1;
	/* Its result, if no worker ever gets it. */
	sampling->rows.all[sampled->row].result = "busy";
	sampling->waiting_count++;
	return 0;
}

/* It holds memory: wait for its death. */
static void end(const struct sampled_copy *sampled)
{
	kill(sampled->copy.pid, SIGKILL);
	if (sampled->sibling)
		waitpid(sampled->copy.pid, NULL, __WALL);
}

static void forget(struct sampling *sampling, unsigned index)
{
	if (sampling->waiting[index].recording >= 0)
		close(sampling->waiting[index].recording);
	sampling->waiting[index] = sampling->waiting[--sampling->waiting_count];
}

void waiting_kill(struct sampling *sampling, const struct process *process)
{
	for (unsigned i = sampling->waiting_count; i-- > 0;) {
		struct sampled_copy *sampled = &sampling->waiting[i].sampled;

		if (process && sampled->process != process)
			continue;
		end(sampled);
		sampled_copy_bury(sampled);
		forget(sampling, i);
	}
}

/* From the nearest instant of a copy that a worker has got. */
static uint64_t distance(const struct sampling *sampling, const struct waiting_copy *waiting)
{
	const struct copies_row *rows = sampling->rows.all;
	const uint64_t at = rows[waiting->sampled.row].at_cpu_ns;
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < sampling->rows.count; i++) {
		const uint64_t other = rows[i].at_cpu_ns;
		const uint64_t apart = at > other ? at - other : other - at;

		if (rows[i].given && apart < least)
			least = apart;
	}
	return least;
}

/* The farthest; of those, the first. */
static unsigned choose(const struct sampling *sampling)
{
	uint64_t most = 0;
	unsigned best = 0;

	for (unsigned i = 0; i < sampling->waiting_count; i++) {
		const uint64_t apart = distance(sampling, &sampling->waiting[i]);

		if (apart > most) {
			most = apart;
			best = i;
		}
	}
	return best;
}

void waiting_give(struct sampling *sampling, struct worker *worker)
{
	const uint64_t now = clock_ns();

	if (workers_serving(sampling->workers) == 0)
		waiting_kill(sampling, NULL);
	if (!sampling->waiting_count || worker->busy || worker->retired || worker->socket < 0 ||
	    waiting_is_for_the_end(sampling))
		return;
	if (!has_time(sampling, now))
		waiting_kill(sampling, NULL);
	while (sampling->waiting_count && !worker->busy) {
		const unsigned index = choose(sampling);
		struct waiting_copy *waiting = &sampling->waiting[index];

		waiting->job.time_ns = waiting_share(sampling);
		if (now - waiting->sampled.copy.taken_ns > MOST_PARKED_NS ||
		    sampled_copy_give(sampling, worker, &waiting->sampled, &waiting->job,
				      waiting->recording) < 0) {
			end(&waiting->sampled);
			sampled_copy_bury(&waiting->sampled);
		}
		forget(sampling, index);
		if (worker->socket < 0)
			return;
	}
}
