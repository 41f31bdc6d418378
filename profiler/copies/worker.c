/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "worker.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "arms.h"
#include "clock.h"
#include "follow.h"
#include "parcel.h"
#include "processes.h"
#include "replay.h"
#include "translator.h"
#include "window.h"

/* Programs with more images than this have the code of some translated again. */
#define MOST_IMAGES 4u

struct image {
	uint64_t image, used;	/* used: when, in jobs */
	struct translator *translator;
};

struct work {
	int socket;
	struct windows *windows;
	const struct arms_options *arms;	/* NULL: copies are followed */
	struct slice_rows slices;
	uint64_t random;
	const char *folder;
	uint32_t number;
	uint64_t jobs;
	struct image images[MOST_IMAGES];
};

static struct translator *translator_of(struct work *work, uint64_t image)
{
	struct image *place = &work->images[0];

	for (unsigned i = 0; i < MOST_IMAGES; i++) {
		struct image *each = &work->images[i];

		if (each->translator && each->image == image) {
			each->used = work->jobs;
			return each->translator;
		}
		if (!each->translator || (place->translator && each->used < place->used))
			place = each;
	}
	if (place->translator)
		translator_free(place->translator, windows_watcher(work->windows));
	*place = (struct image){ image, work->jobs, translator_make() };
	return place->translator;
}

static int tell(const struct work *work, const struct worker_news *news)
{
	return send(work->socket, news, sizeof(*news), MSG_NOSIGNAL) < 0 ? -1 : 0;
}

/* Follow the copy until its window ends, and kill it. */
static void follow_copy(struct work *work, struct worker_job *job, int recorded,
			struct worker_news *news,
			struct followed *followed, bool *began)
{
	const struct follow_limits limits = { .time_ns = job->time_ns };
	struct translator *translator = translator_of(work, job->image);
	struct recording recording;

	if (!translator || recording_open(&recording, recorded) < 0) {
		news->error = errno;
		copy_kill(&job->copy);
		news->killed_ns = clock_ns();
		return;
	}
	if (copy_take(&job->copy) < 0 ||
	    windows_begin(work->windows, &job->copy, &job->start) < 0) {
		news->error = errno;
	} else {
		*began = true;
		if (follow(translator, &job->copy, &recording, &limits, windows_watcher(work->windows),
			   followed) < 0)
			news->error = errno;
		news->end = followed->end;
	}
	news->cpu_ns += process_cpu_ns(job->copy.pid);
	recording_close(&recording);
	copy_kill(&job->copy);
	news->killed_ns = clock_ns();
}

/* Only copies map its frames. */
static bool has_ended(pid_t pid)
{
	struct process_status status;

	return process_status(pid, &status) < 0 || status.state == 'Z';
}

/* Let arms of the copy do its work, and kill it. */
static void measure_copy(struct work *work, struct worker_job *job, int recorded,
			 struct worker_news *news)
{
	const size_t first = work->slices.count;
	struct arms_options options = *work->arms;
	struct recording recording;
	bool answered = false;

	options.enough_ns = job->time_ns;
	options.keeps_frames = has_ended(job->copy.program);
	if (recording_open(&recording, recorded) == 0)
		answered = recording_calls(&recording) >= ARMS_FEWEST_CALLS;
	if (copy_take(&job->copy) < 0 ||
	    arms_measure(&work->slices, &options, &job->copy, answered ? &recording : NULL,
			 job->start.number, &work->random) < 0)
		news->error = errno;
	recording_close(&recording);
	news->good = slice_rows_are_good(&work->slices, first);
	news->end = FOLLOW_ENOUGH;
	copy_kill(&job->copy);
	news->killed_ns = clock_ns();
}

static int do_job(struct work *work, struct worker_job *job, int recorded)
{
	struct worker_news news = { .what = NEWS_DEAD, .window = job->start.number };
	struct followed followed = { .end = FOLLOW_FAILED };
	bool began = false;

	const uint64_t before_ns = process_cpu_ns(getpid());
	uint64_t copy_ns;

	work->jobs++;
	if (work->arms)
		measure_copy(work, job, recorded, &news);
	else
		follow_copy(work, job, recorded, &news, &followed, &began);
	copy_ns = news.cpu_ns;
	news.cpu_ns = copy_ns + process_cpu_ns(getpid()) - before_ns;
	/* First: it holds memory; wait for its death. */
	if (tell(work, &news) < 0)
		return -1;
	news.what = NEWS_READY;
	if (began && windows_end(work->windows, &followed) < 0)
		news.error = errno;
	news.cpu_ns = copy_ns + process_cpu_ns(getpid()) - before_ns;
	return tell(work, &news);
}

static int write_tables(struct work *work)
{
	struct worker_news news = { .what = NEWS_WRITTEN };

	const int rc = work->arms ?
			       slice_rows_write(&work->slices, work->folder, work->number) :
			       windows_write(work->windows, work->folder, work->number);

	if (rc < 0)
		news.error = errno;
	return tell(work, &news);
}

int worker_run(int socket, const struct worker_options *options, const char *folder,
	       uint32_t number)
{
	struct work work = { .socket = socket, .folder = folder, .number = number, .random = clock_ns() | 1,
			     .arms = options->arms };
	struct worker_job job;
	int rc = 0, recording;

	if (!work.arms) {
		work.windows = windows_make(options->window);
		if (!work.windows)
			return 125;
	}
	while (rc == 0 && parcel_receive(socket, &job, sizeof(job), &recording) == 0) {
		switch (job.what) {
		case JOB_FOLLOW:
			rc = do_job(&work, &job, recording);
			break;
		case JOB_WRITE:
			rc = write_tables(&work);
			break;
		}
		if (recording >= 0)
			close(recording);
	}
	return 0;
}
