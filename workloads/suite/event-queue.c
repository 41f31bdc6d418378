/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Simulate customers who go from station to station: a binary heap has the
 * next event of each.  A step goes down the heap, where each level lies
 * further apart than the one before, and changes one station anywhere.
 */
#include "workload.h"

struct event {
	uint64_t time;
	uint32_t customer;
	uint32_t station;
};

struct station {
	uint64_t free_at;
	uint64_t served;
	uint64_t waited;
	uint64_t last_customer;
};

static void push(struct event *heap, uint64_t n, struct event event)
{
	uint64_t i = n;

	while (i > 0 && heap[(i - 1) / 2].time > event.time) {
		heap[i] = heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	heap[i] = event;
}

/* Put another event in the place of the first. */
static void replace_first(struct event *heap, uint64_t n, struct event event)
{
	uint64_t i = 0, child;

	while ((child = 2 * i + 1) < n) {
		if (child + 1 < n && heap[child + 1].time < heap[child].time)
			child++;
		if (heap[child].time >= event.time)
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = event;
}

/* Serve the customer; when the station is done with them. */
static uint64_t serve(struct station *station, const struct event *event,
		      uint64_t duration)
{
	uint64_t start = event->time;

	if (station->free_at > start) {
		station->waited += station->free_at - start;
		start = station->free_at;
	}
	station->served++;
	station->last_customer = event->customer;
	station->free_at = start + duration;
	return station->free_at;
}

int main(int argc, char **argv)
{
	uint64_t customers = 2000000, stations = 1000000, count = 4000000, seed = 1;
	const struct workload_option options[] = {
		{ "count", &count, 0, "events" },
		{ "customers", &customers, 1, "customers, each with one event to come" },
		{ "seed", &seed, 0, "of the times and ways" },
		{ "stations", &stations, 1, "stations" },
	};
	struct station *station;
	struct event *heap;
	uint64_t state, sum = 0;

	(void)argc;
	WORKLOAD_PARSE(argv, "Simulate customers of stations.", options);
	if (customers > UINT32_MAX || stations > UINT32_MAX) {
		fputs("--customers or --stations is too large\n", stderr);
		return 2;
	}
	heap = workload_memory(customers * sizeof(*heap));
	station = workload_memory(stations * sizeof(*station));
	memset(station, 0, stations * sizeof(*station));
	state = workload_seed(seed);
	for (uint64_t i = 0; i < customers; i++)
		push(heap, i, (struct event){
			.time = workload_below(workload_random(&state), 1u << 30),
			.customer = (uint32_t)i,
			.station = (uint32_t)workload_below(workload_random(&state), stations),
		});
	for (uint64_t i = 0; i < count; i++) {
		struct event event = heap[0];
		uint64_t duration = workload_below(workload_random(&state), 1u << 10);
		uint64_t way = workload_below(workload_random(&state), 1u << 30);

		event.time = serve(&station[event.station], &event, duration) + way;
		event.station = (uint32_t)workload_below(workload_random(&state), stations);
		replace_first(heap, customers, event);
	}
	for (uint64_t i = 0; i < stations; i++)
		sum = sum * 31 + station[i].waited + station[i].served +
		      station[i].last_customer;
	free(heap);
	free(station);
	return workload_finish(sum);
}
